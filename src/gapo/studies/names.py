"""How methods are written on pages and in figures."""

METHOD_NAMES = {
    "gapo": "GAPO",
    "simpo": "SimPO",
    "dpo": "DPO",
    "ipo": "IPO",
    "kto": "KTO",
    "cpo": "CPO",
    "orpo": "ORPO",
    "rdpo": "R-DPO",
    "alpha_dpo": "α-DPO",
    "robust_dpo": "r-DPO",
    "cdpo": "cDPO",
    "dr_dpo": "Dr.DPO",
    "gradnorm": "GradNorm-Reweight",
    "length_only": "length only",
    "simpo_sam": "SimPO+SAM",
    "consensus": "Consensus",
    "consensus_dpo": "Consensus+DPO",
    "consensus_gapo": "Consensus+GAPO",
    "start": "start model",
}


def method_name(name: str) -> str:
    return METHOD_NAMES.get(name, name)
