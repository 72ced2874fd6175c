"""The book's studies, declared before their runs: see ../README.md."""

from __future__ import annotations

from efficient_transformers.studies.protocol import Study

from . import controls, optimizers, size
from .anchor import ANCHOR
from .contexts import CONTEXTS, GATE_STUDY, MASKED_STUDY
from .head_to_head import EQUAL_TIME, EQUAL_TIME_2000, HEAD_TO_HEAD, LENGTHS, SIZES
from .primer_parts import PRIMER_PARTS
from .shortening import RESAMPLING, SHORTENING

# In the order of their runs. What has to be cut is cut from the end. Those of protocol 3 come last.
STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        HEAD_TO_HEAD,
        EQUAL_TIME,
        EQUAL_TIME_2000,
        LENGTHS,
        SHORTENING,
        RESAMPLING,
        PRIMER_PARTS,
        GATE_STUDY,
        CONTEXTS,
        MASKED_STUDY,
        ANCHOR,
        SIZES,
        controls.depth(),
        controls.distances(),
        controls.shut_gate(),
        controls.attention_beside(),
        controls.own_output(),
        controls.eight_thousand(),
        controls.longer_values(),
        controls.attention_added(),
        controls.open_rate(),
        controls.more_updates(),
        controls.mixing(),
        controls.positions(),
        controls.eight_layers(),
        controls.elsewhere(),
        controls.decay(),
        controls.opponents(),
        controls.front(),
        controls.squared(),
        controls.shut_for_long(),
        controls.slopes(),
        optimizers.muon(500),
        optimizers.muon_rates(),
        optimizers.muon_partners(),
        optimizers.muon(2000),
        optimizers.modern(500),
        optimizers.longer(),
        optimizers.modern(2000),
        size.size_64(),
        size.size_128(),
        size.size_256(),
    )
}
