"""The torch face: tensors, modules, activations and embeddings over tiers of memory."""

from tiermem.offload.embedding import TieredEmbedding as TieredEmbedding
from tiermem.offload.frozen import NoGradient as NoGradient
from tiermem.offload.memory import TieredMemory as TieredMemory
from tiermem.offload.module import offload as offload
from tiermem.offload.module import restore as restore
from tiermem.offload.module import streaming_of as streaming_of
from tiermem.offload.saved import saved_tensors as saved_tensors
from tiermem.offload.tensor import TensorLost as TensorLost
from tiermem.offload.tensor import TieredTensor as TieredTensor
