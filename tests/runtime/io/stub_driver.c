/* A CUDA driver library without a device, so that kvikio's host path runs where there is no GPU.
 *
 * kvikio looks these entry points up when it loads and asks a few of them in every transfer. The
 * driver has a version; a pointer is nobody's (3, not initialised), hence host memory; everything
 * else answers 100, no device. If every call answered 100, kvikio's first transfer would deadlock.
 */
enum { SUCCESS = 0, NOT_INITIALISED = 3, NO_DEVICE = 100 };

int cuDriverGetVersion(int *version) { *version = 12000; return SUCCESS; }
int cuPointerGetAttributes(void) { return NOT_INITIALISED; }

#define ABSENT(name) \
    int name(void) { return NO_DEVICE; } \
    int name##_v2(void) { return NO_DEVICE; } \
    int name##_v4(void) { return NO_DEVICE; }

ABSENT(cuInit) ABSENT(cuMemHostAlloc) ABSENT(cuMemFreeHost) ABSENT(cuMemHostRegister)
ABSENT(cuMemHostUnregister) ABSENT(cuMemcpyHtoDAsync) ABSENT(cuMemcpyDtoHAsync)
ABSENT(cuMemcpyAsync) ABSENT(cuMemcpyBatchAsync) ABSENT(cuPointerGetAttribute)
ABSENT(cuCtxCreate) ABSENT(cuCtxDestroy) ABSENT(cuCtxPushCurrent) ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxGetCurrent) ABSENT(cuCtxGetDevice) ABSENT(cuMemGetAddressRange)
ABSENT(cuGetErrorName) ABSENT(cuGetErrorString) ABSENT(cuDeviceGet) ABSENT(cuDeviceGetCount)
ABSENT(cuDeviceGetAttribute) ABSENT(cuDevicePrimaryCtxRetain) ABSENT(cuDevicePrimaryCtxRelease)
ABSENT(cuStreamSynchronize) ABSENT(cuStreamCreate) ABSENT(cuStreamDestroy)
ABSENT(cuEventSynchronize) ABSENT(cuEventCreate) ABSENT(cuEventDestroy) ABSENT(cuEventRecord)
ABSENT(cuEventQuery) ABSENT(cuLaunchHostFunc)
