"""What the TOML files of `models/` may say: one pydantic model per kind of file.

Numbers stand in tables of their own; a `[source]` table repeats the keys and says of each number
how well it is known. Sizes are written as people write them (`"80 GiB"`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tiermem.errors import InputError
from tiermem.models.sheet import Document
from tiermem.models.tier import Kind
from tiermem.units import parse_bytes

Confidence = Literal["read", "secondary", "derived", "memory", "chosen"]
"""read: seen in a primary text, file or plot. secondary: in a text that quotes the primary.
derived: computed, and the source says how. memory: recalled, unconfirmed. chosen: by us, with a
reason."""


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a size such as '64 GiB'")
    try:
        return parse_bytes(value)
    except InputError as error:
        raise ValueError(str(error)) from None


Size = Annotated[int, BeforeValidator(_size)]
Rate = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]
WholeNs = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Said(Document):
    """Where one number comes from."""

    confidence: Confidence
    source: Text


Sources = dict[str, Said]
NamedSources = dict[str, dict[str, Said]]


class TierNumbers(Document):
    """One device as a place for bytes; channels alone leave the capacity to the system."""

    kind: Kind
    capacity: Size | None = None
    read_bytes_per_s: Rate
    write_bytes_per_s: Rate
    latency_ns: WholeNs


class ComputeNumbers(Document):
    """One device as a place for work."""

    flops_per_s: Rate
    bytes_per_s: Rate
    gemm_efficiency: Share
    attention_efficiency: Share
    bandwidth_efficiency: Share
    kernel_ns: WholeNs


class LinkNumbers(Document):
    """One wire, or the port of one device."""

    bytes_per_s: Rate
    full_duplex: bool
    setup_ns: WholeNs


class HardwareSources(Document):
    """The provenance of a hardware file, table by table."""

    tier: Sources = Field(default_factory=dict)
    compute: Sources = Field(default_factory=dict)
    link: Sources = Field(default_factory=dict)


class Hardware(Document):
    """`hardware/NAME.toml`: a device, a wire, or a device with its port."""

    description: Text
    note: Text | None = None
    tier: TierNumbers | None = None
    compute: ComputeNumbers | None = None
    link: LinkNumbers | None = None
    source: HardwareSources = HardwareSources()


class ComputeChanges(Document):
    """What a system says differently about the compute of one device."""

    flops_per_s: Rate | None = None
    bytes_per_s: Rate | None = None
    gemm_efficiency: Share | None = None
    attention_efficiency: Share | None = None
    bandwidth_efficiency: Share | None = None
    kernel_ns: WholeNs | None = None


class SystemTier(Document):
    """`count` devices as one tier; any number of the hardware file can be said anew."""

    name: Name
    hardware: Text | None = None
    count: Count = 1
    parallel_efficiency: Share | None = None
    kind: Kind | None = None
    capacity: Size | None = None
    read_bytes_per_s: Rate | None = None
    write_bytes_per_s: Rate | None = None
    latency_ns: WholeNs | None = None
    compute: ComputeChanges | None = None


class SystemLink(Document):
    """`count` wires side by side as one link."""

    name: Name
    ends: list[Text]
    hardware: Text | None = None
    count: Count = 1
    bytes_per_s: Rate | None = None
    full_duplex: bool | None = None
    setup_ns: WholeNs | None = None

    @model_validator(mode="after")
    def _two_ends(self) -> Self:
        if len(self.ends) != 2 or self.ends[0] == self.ends[1]:
            raise ValueError("ends must name two different places")
        return self


class EngineNumbers(Document):
    """The room a serving engine gives the KV-cache in the first tier."""

    usable_fraction: Share
    kv_block_tokens: Count
    kv_blocks: Count | None = None


class SystemSources(Document):
    """The provenance of a system's own numbers; those of its hardware stand in their files."""

    engine: Sources = Field(default_factory=dict)
    tier: NamedSources = Field(default_factory=dict)
    compute: NamedSources = Field(default_factory=dict)
    link: NamedSources = Field(default_factory=dict)


class SystemSheet(Document):
    """`systems/NAME.toml`: tiers fastest first, and the links between them."""

    description: Text
    note: Text | None = None
    engine: EngineNumbers
    tier: Annotated[list[SystemTier], Field(min_length=1)]
    link: list[SystemLink] = Field(default_factory=list)
    source: SystemSources = SystemSources()


class ModelNumbers(Document):
    """The shape of one language model; see `tiermem.models.llm.LLM` for each word."""

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count | None = None
    head_dim: Count | None = None
    ffn: Count | None = None
    ffn_gated: bool
    vocab: Count
    tied_embeddings: bool
    other_params: WholeNs
    max_context_tokens: Count
    kernels_per_layer: Count
    weight_element_bytes: Rate
    kv_element_bytes: Count


class LatentNumbers(Document):
    """Latent attention."""

    q_lora_rank: Count
    kv_lora_rank: Count
    qk_nope_head_dim: Count
    qk_rope_head_dim: Count
    v_head_dim: Count


class ExpertNumbers(Document):
    """A mixture of experts."""

    count: Count
    active: Count
    ffn: Count
    shared: WholeNs
    dense_layers: WholeNs


class LLMSources(Document):
    """The provenance of a model's numbers, table by table."""

    model: Sources = Field(default_factory=dict)
    latent: Sources = Field(default_factory=dict)
    experts: Sources = Field(default_factory=dict)


class LLMSheet(Document):
    """`llms/NAME.toml`: the geometry of one model."""

    description: Text
    note: Text | None = None
    model: ModelNumbers
    latent: LatentNumbers | None = None
    experts: ExpertNumbers | None = None
    source: LLMSources = LLMSources()
