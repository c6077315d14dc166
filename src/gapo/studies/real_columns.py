"""Columns that the studies of a real language model show."""

from gapo.studies.columns import NAME
from gapo.studies.exhibits import PERCENT, PLAIN, POINTS, RATIO, SAID, SHARE, WORDS, Column

DATA, KIND = Column("data", "pairs", WORDS), Column("flips", "flipped", WORDS)
RATE, SEEDS = Column("rate", "share flipped", SHARE), Column("seeds", "seeds", PLAIN)
DRIFT, BEFORE = Column("kl", "drift, nats a token", PLAIN), Column("accuracy_before", "before training")
CELL = (DATA, KIND, RATE, NAME)
AREAS = tuple(
    Column(f"{key}_area", f"area, {words}", RATIO)
    for key, words in {"weight": "low weight", "margin": "low margin", "length_term": "short"}.items()
)
WEIGHT_COLUMNS = (
    Column("clean_weight", "weight, clean", PLAIN),
    Column("flipped_weight", "weight, flipped", PLAIN),
    Column("relative", "flipped against clean, %", POINTS),
    Column("bottom", "flipped in the bottom 20 %", PERCENT),
    Column("top", "flipped in the top 20 %", PERCENT),
)
SPOKEN = tuple(Column(key, key, SAID) for key in ("prompt", "before", "after"))
LIKELIHOOD, TASK = Column("likelihood_accuracy", "by likelihood"), Column("task", "benchmark", WORDS)
