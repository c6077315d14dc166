"""accelerate reads our configurations for one and two nodes."""

import os
from pathlib import Path

import pytest

CONFIGS = Path(__file__).parents[3] / "recipes" / "accelerate"
NODES = {"fsdp2-1x8": (1, 8), "fsdp2-2x8": (2, 16)}


def test_there_are_two():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(NODES)


@pytest.mark.parametrize("name", NODES)
def test_accelerate_loads_it(name):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import DistributedType

    config = load_config_from_file(str(CONFIGS / f"{name}.yaml"))
    assert config.distributed_type is DistributedType.FSDP
    assert (config.num_machines, config.num_processes) == NODES[name]
    assert config.mixed_precision == "no"


@pytest.mark.parametrize("name", NODES)
def test_its_launcher_asks_for_fsdp2(name):
    """What `accelerate launch` makes of it: the environment its processes start with."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    before = dict(os.environ)
    arguments = ["--config_file", str(CONFIGS / f"{name}.yaml"), "--main_process_ip", "10.0.0.1", "-m", "gapo", "train"]
    args, _, _ = _validate_launch_command(launch_command_parser().parse_args(arguments))
    assert args.use_fsdp
    environment = prepare_multi_gpu_env(args)
    os.environ.clear()
    os.environ.update(before)
    assert environment["ACCELERATE_USE_FSDP"] == "true"
    assert environment["FSDP_VERSION"] == "2"
    assert environment["FSDP_AUTO_WRAP_POLICY"] == "TRANSFORMER_BASED_WRAP"
    assert environment["FSDP_RESHARD_AFTER_FORWARD"].lower() == "true"


@pytest.mark.parametrize("name", NODES)
def test_its_environment_makes_an_fsdp2_plugin(name, monkeypatch):
    import yaml
    from accelerate.utils import FullyShardedDataParallelPlugin

    for key, value in yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())["fsdp_config"].items():
        monkeypatch.setenv(key.upper(), str(value).lower() if isinstance(value, bool) else str(value))
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert not plugin.activation_checkpointing
    assert not plugin.cpu_ram_efficient_loading
