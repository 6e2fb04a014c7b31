// What somebody writes by hand for the workloads of chunked_gpu_rows.py: one kernel for each pass over the data,
// elements two by two. Compiled by NVRTC through CuPy (chunked_cupy.py). Sizes are in elements; n and columns are even.

typedef long long Size;

__device__ double block_sum(double value) {
  __shared__ double parts[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0;
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  return value;
}

__device__ double chain(double x) { return sqrt(x * x + 1) * exp(-x); }

#define REDUCTION(name, f)                                                                                 \
  extern "C" __global__ void name(const double2* x, Size n, double* result) {                              \
    double first = 0, second = 0;                                                                          \
    const Size step = Size(gridDim.x) * blockDim.x;                                                        \
    _Pragma("unroll 4") for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step) { \
      const double2 v = x[i];                                                                              \
      first += f(v.x);                                                                                     \
      second += f(v.y);                                                                                    \
    }                                                                                                      \
    const double sum = block_sum(first + second);                                                          \
    if (threadIdx.x == 0) atomicAdd(result, sum);                                                          \
  }
REDUCTION(sum, )
REDUCTION(mean_chain, chain)

extern "C" __global__ void line(const double2* x, double2* y, Size n) {
  const Size step = Size(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step)
    y[i] = make_double2(x[i].x * 2 + 1, x[i].y * 2 + 1);
}

extern "C" __global__ void root(const double2* x, const double2* y, double2* z, Size n) {
  const Size step = Size(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step) {
    const double2 a = x[i], b = y[i];
    z[i] = make_double2(sqrt(a.x * a.x + b.x * b.x) + a.x, sqrt(a.y * a.y + b.y * b.y) + a.y);
  }
}

__device__ double2 price_of(double price, double strike, double years) {
  const double width = 0.3 * sqrt(years);
  const double d1 = (log(price / strike) + (0.02 + 0.5 * 0.3 * 0.3) * years) / width, d2 = d1 - width;
  const double discounted = strike * exp(-0.02 * years);
  return make_double2(price * normcdf(d1) - discounted * normcdf(d2), discounted * normcdf(-d2) - price * normcdf(-d1));
}

extern "C" __global__ void black_scholes(const double2* price, const double2* strike, const double2* years,
                                         double2* call, double2* put, Size n) {
  const Size step = Size(gridDim.x) * blockDim.x;
  for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step) {
    const double2 p = price[i], s = strike[i], t = years[i];
    const double2 a = price_of(p.x, s.x, t.x), b = price_of(p.y, s.y, t.y);
    call[i] = make_double2(a.x, b.x);
    put[i] = make_double2(a.y, b.y);
  }
}

// Sums of (x - shift) and of its square by columns, into sums[2][columns]; a thread has two columns.
extern "C" __global__ void column_sums(const double2* x, Size rows, int columns, double* sums) {
  const int pair = threadIdx.x, pairs = columns / 2;
  const double2 shift = x[pair];
  double2 first = make_double2(0, 0), second = first;
#pragma unroll 4
  for (Size row = blockIdx.x; row < rows; row += gridDim.x) {
    double2 v = x[row * pairs + pair];
    v.x -= shift.x;
    v.y -= shift.y;
    first.x += v.x;
    first.y += v.y;
    second.x += v.x * v.x;
    second.y += v.y * v.y;
  }
  atomicAdd(sums + 2 * pair, first.x);
  atomicAdd(sums + 2 * pair + 1, first.y);
  atomicAdd(sums + columns + 2 * pair, second.x);
  atomicAdd(sums + columns + 2 * pair + 1, second.y);
}

// Mean and standard deviation of one block of columns from these sums.
extern "C" __global__ void column_moments(const double* x, const double* sums, Size rows, int columns, double* mean,
                                          double* deviation) {
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const double m = sums[column] / rows;
    mean[column] = x[column] + m;
    deviation[column] = sqrt(sums[columns + column] / rows - m * m);
  }
}

extern "C" __global__ void standardise(const double2* x, const double2* mean, const double2* deviation, double2* y,
                                       Size rows, int columns) {
  const int pair = threadIdx.x, pairs = columns / 2;
  const double2 m = mean[pair], d = deviation[pair];
#pragma unroll 4
  for (Size row = blockIdx.x; row < rows; row += gridDim.x) {
    const double2 v = x[row * pairs + pair];
    y[row * pairs + pair] = make_double2((v.x - m.x) / d.x, (v.y - m.y) / d.y);
  }
}

// A warp for each row.
extern "C" __global__ void row_sums(const double2* x, Size rows, int columns, double* sums) {
  const Size row = (Size(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  double sum = 0;
#pragma unroll 8
  for (int i = threadIdx.x % 32; i < columns / 2; i += 32) {
    const double2 v = x[row * (columns / 2) + i];
    sum += v.x + v.y;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) sums[row] = sum;
}

// Greatest element and sum of exponentials of each row of 1024: a block of 256 threads for each.
extern "C" __global__ void softmax_states(const double2* x, double2* states) {
  __shared__ double parts[8];
  const double2 a = x[Size(blockIdx.x) * 512 + threadIdx.x], b = x[Size(blockIdx.x) * 512 + 256 + threadIdx.x];
  double most = fmax(fmax(a.x, a.y), fmax(b.x, b.y));
  for (int step = 16; step > 0; step /= 2) most = fmax(most, __shfl_xor_sync(~0u, most, step));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < 8; ++i) most = fmax(most, parts[i]);
  const double sum = block_sum(exp(a.x - most) + exp(a.y - most) + exp(b.x - most) + exp(b.y - most));
  if (threadIdx.x == 0) states[blockIdx.x] = make_double2(most, sum);
}

extern "C" __global__ void softmax(const double2* x, const double2* states, double2* y, Size n) {
  const Size step = Size(gridDim.x) * blockDim.x;
#pragma unroll 2
  for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step) {
    const double2 v = x[i], s = states[i / 512];
    y[i] = make_double2(exp(v.x - s.x) / s.y, exp(v.y - s.x) / s.y);
  }
}

// side^3 elements; a thread goes along axis 0, with three of them in registers. Blocks: 32 x 8 threads, `depth` planes.
extern "C" __global__ void stencil(const double* u, double* result, int side, int depth) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  const int begin = blockIdx.z * depth + 1, end = min(begin + depth, side - 1), inner = side - 2;
  if (x >= side - 1 || y >= side - 1) return;
  const Size plane = Size(side) * side;
  const double* p = u + begin * plane + Size(y) * side + x;
  double before = p[-plane], here = p[0];
  for (int z = begin; z < end; ++z, p += plane) {
    const double after = p[plane];
    result[(Size(z - 1) * inner + (y - 1)) * inner + (x - 1)] =
        before + after + p[-side] + p[side] + p[-1] + p[1] - 6 * here;
    before = here;
    here = after;
  }
}

// 100 bins of [0, 1]; a copy of them for each warp of 8.
extern "C" __global__ void histogram(const double2* x, Size n, unsigned long long* counts) {
  __shared__ unsigned bins[8][100];
  for (int i = threadIdx.x; i < 800; i += blockDim.x) bins[i / 100][i % 100] = 0;
  __syncthreads();
  unsigned* mine = bins[threadIdx.x / 32];
  const Size step = Size(gridDim.x) * blockDim.x;
#pragma unroll 4
  for (Size i = Size(blockIdx.x) * blockDim.x + threadIdx.x; i < n / 2; i += step) {
    const double2 v = x[i];
    if (v.x >= 0 && v.x <= 1) atomicAdd(mine + min(int(v.x * 100), 99), 1u);
    if (v.y >= 0 && v.y <= 1) atomicAdd(mine + min(int(v.y * 100), 99), 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 100; i += blockDim.x) {
    unsigned long long count = 0;
    for (int warp = 0; warp < 8; ++warp) count += bins[warp][i];
    atomicAdd(counts + i, count);
  }
}
