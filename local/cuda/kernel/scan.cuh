// Scans and folds along one axis (local/cuda/scanning.cpp). Embedded behind scan_slots.h, inside of its namespace,
// which has defined In, T, W (what is computed in) and W combine(W, W).

struct Params {
  int64_t s[kSlots];
};

template <class S>
QUARRY_FN W widen(S x) {
  if constexpr (fn::same_type<S, W>)
    return x;
  else if constexpr (fn::same_type<T, W>)
    return fn::convert<W>::from(x);
  else
    return static_cast<W>(fn::convert<T>::from(x));
}

struct Line {
  const char* in;
  char* out;
};
QUARRY_FN Line line_at(const Params& p, int64_t line) {
  int64_t rest = line / p.s[s_lanes];
  const int64_t lane = line - rest * p.s[s_lanes];
  Line at{reinterpret_cast<const char*>(p.s[s_in]) + lane * p.s[s_in_lane],
          reinterpret_cast<char*>(p.s[s_out]) + lane * p.s[s_out_lane]};
  for (int64_t d = p.s[s_axes]; d-- > 0;) {
    const int64_t* axis = p.s + s_first_axis + 3 * d;
    const int64_t next = rest / axis[0], position = rest - next * axis[0];
    at.in += position * axis[1];
    at.out += position * axis[2];
    rest = next;
  }
  return at;
}

// ---- A thread per line ----

// A thread per line and segment, in order. Neighbouring threads take neighbouring lines.
QUARRY_FN void run_lines(const Params& p) {
  constexpr int U = 8;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const int64_t segment = thread / p.s[s_lines], line = thread - segment * p.s[s_lines];
  if (segment >= p.s[s_segments]) return;
  const int64_t begin = segment * p.s[s_per_segment];
  int64_t end = begin + p.s[s_per_segment];
  if (end > p.s[s_length]) end = p.s[s_length];
  const int64_t mode = p.s[s_mode], in_step = p.s[s_in_step], out_step = p.s[s_out_step];
  const Line at = line_at(p, line);
  const char* x = at.in + begin * in_step;
  char* y = at.out + begin * out_step;
  W* const partial = reinterpret_cast<W*>(p.s[s_partial]) + line * p.s[s_partial_line];
  W acc;
  bool started = mode == m_continue && segment > 0;
  if (started) acc = partial[(segment - 1) * p.s[s_partial_segment]];
  int64_t i = begin;
  for (; i + U <= end; i += U) {
    In values[U];
#pragma unroll
    for (int u = 0; u < U; ++u) values[u] = load_one<In>(x + u * in_step);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const W value = widen(values[u]);
      acc = started ? combine(acc, value) : value;
      started = true;
      if (mode != m_fold) store_one<T>(y + u * out_step, static_cast<T>(acc));
    }
    x += U * in_step;
    y += U * out_step;
  }
  for (; i < end; ++i) {
    const W value = widen(load_one<In>(x));
    acc = started ? combine(acc, value) : value;
    started = true;
    if (mode != m_fold) store_one<T>(y, static_cast<T>(acc));
    x += in_step;
    y += out_step;
  }
  if (mode == m_fold) partial[segment * p.s[s_partial_segment]] = acc;
}

// ---- A warp per tile ----

// A warp's tile is C chunks; in a chunk every lane has V neighbours. Elements are combined inside the lane, lanes by
// shuffles, then chunks in order: one grouping, however the memory lies.
constexpr int kWidest = sizeof(In) > sizeof(T) ? sizeof(In) : sizeof(T);
constexpr int V = neighbours_of(kWidest);
constexpr int C = chunks_of(V);
constexpr int kChunk = 32 * V, kTile = C * kChunk;

template <class X, class F>
QUARRY_FN X shuffled(X x, F exchange) {
  constexpr int words = (sizeof(X) + 3) / 4;
  uint32_t w[words] = {};
  memcpy(&w, &x, sizeof(X));
#pragma unroll
  for (int i = 0; i < words; ++i) w[i] = exchange(w[i]);
  memcpy(&x, &w, sizeof(X));
  return x;
}
QUARRY_FN W shuffle_up(W x, int distance) {
  return shuffled(x, [=](uint32_t w) { return __shfl_up_sync(0xffffffffu, w, distance); });
}
QUARRY_FN W shuffle_from(W x, int lane) {
  return shuffled(x, [=](uint32_t w) { return __shfl_sync(0xffffffffu, w, lane); });
}
// Every prefix of the lanes' values; the lanes that take part come first.
QUARRY_FN W scan_lanes(W x, int lane, int lanes) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const W other = shuffle_up(x, distance);
    if (lane >= distance && lane < lanes) x = combine(other, x);
  }
  return x;
}

// How many elements of a tile of `count` lie at or after the first of a lane's in chunk c: none where negative, all of
// the lane's from V on. Not clamped to 0 ... V: ptxas 13.0 takes 0 for V in max(min(x, V), 0) == V && y (VIMNMX.RELU).
template <bool Full>
QUARRY_FN int present(int count, int c, int lane) {
  return Full ? V : count - c * kChunk - lane * V;
}

template <bool Full>
QUARRY_FN void load_tile(const Params& p, const char* from, int count, int lane, W (&own)[C][V]) {
  const int64_t step = p.s[s_in_step];
  In values[C][V];
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int mine = present<Full>(count, c, lane);
    const char* x = from + (c * kChunk + lane * V) * step;
    if (p.s[s_dense] && mine >= V)
      load_vector<In, V>(x, values[c]);
    else
      load_strided<In, V>(x, step, mine, values[c]);
  }
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < present<Full>(count, c, lane)) own[c][v] = widen(values[c][v]);
}

template <bool Full>
QUARRY_FN void store_tile(const Params& p, char* to, int count, int lane, const W (&own)[C][V]) {
  const int64_t step = p.s[s_out_step];
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int mine = present<Full>(count, c, lane);
    char* y = to + (c * kChunk + lane * V) * step;
    T values[V];
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < mine) values[v] = static_cast<T>(own[c][v]);
    if (p.s[s_dense] && mine >= V)
      store_vector<T, V>(y, values);
    else
      store_strided<T, V>(y, step, mine, values);
  }
}

// The prefixes inside a tile of at least one element, in place, after `all` where `carried`; returns the fold of both,
// on every lane.
template <bool Full>
QUARRY_FN W scan_tile(W all, bool carried, int count, int lane, W (&own)[C][V]) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int left = Full ? kChunk : count - c * kChunk;
    if (left <= 0) break;
    const int lanes = left >= kChunk ? 32 : (left + V - 1) / V;
    const int mine = present<Full>(count, c, lane);
    W total = own[c][0];
#pragma unroll
    for (int v = 1; v < V; ++v)
      if (v < mine) own[c][v] = total = combine(total, own[c][v]);
    total = scan_lanes(total, lane, lanes);
    const W chunk = shuffle_from(total, lanes - 1);
    W before = shuffle_up(total, 1);
    if (carried) before = lane > 0 ? combine(all, before) : all;
    if (carried || lane > 0) {
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (v < mine) own[c][v] = combine(before, own[c][v]);
    }
    all = carried ? combine(all, chunk) : chunk;
    carried = true;
  }
  return all;
}

template <bool Full>
QUARRY_FN void prepend(W before, int count, int lane, W (&own)[C][V]) {
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < present<Full>(count, c, lane)) own[c][v] = combine(before, own[c][v]);
}

// Many lines: a warp takes the tiles of one after the other.
template <bool Full>
QUARRY_FN void step_warp(const Params& p, const Line& at, int64_t base, int count, int lane, W& carry) {
  W own[C][V];
  load_tile<Full>(p, at.in + base * p.s[s_in_step], count, lane, own);
  carry = scan_tile<Full>(carry, base > 0, count, lane, own);
  store_tile<Full>(p, at.out + base * p.s[s_out_step], count, lane, own);
}
QUARRY_FN void run_warps(const Params& p) {
  const int lane = threadIdx.x % 32;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * (kBlock / 32) + threadIdx.x / 32, length = p.s[s_length];
  if (line >= p.s[s_lines]) return;  // whole warps
  const Line at = line_at(p, line);
  W carry;
  int64_t base = 0;
  for (; base + kTile <= length; base += kTile) step_warp<true>(p, at, base, kTile, lane, carry);
  if (base < length) step_warp<false>(p, at, base, static_cast<int>(length - base), lane, carry);
}

// ---- Few lines: a block per tile, one read ----

// Blocks take the tiles in order by a ticket, so that a block waits for blocks that run already. Every tile publishes
// its fold. kFan tiles are a group, kFan groups a section; the last tile of a group publishes the group's fold, the
// last of a section the fold of everything up to there. A tile's prefix is then sections, groups of its section, tiles
// of its group: always the same grouping, unlike a look-back that takes what happens to be ready.

// Values and flags in memory: of tiles, of groups, of sections; per line.
struct Chain {
  W* values;
  uint32_t* flags;
  inline __device__ void publish(int64_t at, W value) const {
    values[at] = value;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flags + at), "r"(1u) : "memory");
  }
  inline __device__ W await(int64_t at) const {
    uint32_t published;
    do {
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(published) : "l"(flags + at) : "memory");
    } while (published == 0);
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    return values[at];
  }
  // The fold of `count` values from `first` on, on every lane; count > 0.
  inline __device__ W await_fold(int64_t first, int count, int lane) const {
    W value;
    if (lane < count) value = await(first + lane);
    __syncwarp();
    return shuffle_from(scan_lanes(value, lane, count), count - 1);
  }
};

template <bool Full>
QUARRY_FN void look(const Params& p, int64_t line, int64_t tile, int count) {
  constexpr int kWarps = kBlock / 32;
  __shared__ W folds[kWarps];
  __shared__ W ahead[3];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t tiles = p.s[s_tiles], groups = (tiles + kFan - 1) / kFan, sections = (groups + kFan - 1) / kFan;
  const int64_t group = tile / kFan, section = group / kFan;
  const int tiles_before = static_cast<int>(tile % kFan), groups_before = static_cast<int>(group % kFan);
  W* const values = reinterpret_cast<W*>(p.s[s_chain]);
  uint32_t* const flags = reinterpret_cast<uint32_t*>(p.s[s_flags]);
  const int64_t first_group = p.s[s_lines] * tiles, first_section = first_group + p.s[s_lines] * groups;
  const Chain of_tiles{values + line * tiles, flags + line * tiles};
  const Chain of_groups{values + first_group + line * groups, flags + first_group + line * groups};
  const Chain of_sections{values + first_section + line * sections, flags + first_section + line * sections};

  const Line at = line_at(p, line);
  const int64_t base = tile * (kWarps * kTile) + warp * kTile;
  const int left = count - warp * kTile, mine = Full || left > kTile ? kTile : left;
  W own[C][V];
  if (mine > 0) {
    load_tile<Full>(p, at.in + base * p.s[s_in_step], mine, lane, own);
    const W fold = scan_tile<Full>(own[0][0], /*carried=*/false, mine, lane, own);
    if (lane == 0) folds[warp] = fold;
  }
  __syncthreads();
  const int warps = (count + kTile - 1) / kTile;
  if (warp == 0) {
    W fold = folds[0];
    for (int w = 1; w < warps; ++w) fold = combine(fold, folds[w]);
    if (lane == 0) of_tiles.publish(tile, fold);
    if (tiles_before > 0) {
      const W before = of_tiles.await_fold(tile - tiles_before, tiles_before, lane);
      if (lane == 0) ahead[0] = before;
      fold = combine(before, fold);
    }
    if (lane == 0 && tiles_before == kFan - 1) of_groups.publish(group, fold);
  } else if (warp == 1 && groups_before > 0) {
    const W before = of_groups.await_fold(group - groups_before, groups_before, lane);
    if (lane == 0) ahead[1] = before;
  } else if (warp == 2 && section > 0 && lane == 0) {
    ahead[2] = of_sections.await(section - 1);
  }
  __syncthreads();
  W before;
  bool any = false;
  const auto append = [&](W next) {
    before = any ? combine(before, next) : next;
    any = true;
  };
  if (section > 0) append(ahead[2]);
  if (groups_before > 0) append(ahead[1]);
  if (tiles_before > 0) append(ahead[0]);
  if (threadIdx.x == 0 && tiles_before == kFan - 1 && groups_before == kFan - 1) {
    W fold = folds[0];
    for (int w = 1; w < warps; ++w) fold = combine(fold, folds[w]);
    of_sections.publish(section, combine(before, fold));
  }
  for (int w = 0; w < warp && w < warps; ++w) append(folds[w]);
  if (mine > 0) {
    if (any) prepend<Full>(before, mine, lane, own);
    store_tile<Full>(p, at.out + base * p.s[s_out_step], mine, lane, own);
  }
}

QUARRY_FN void run_look(const Params& p) {
  constexpr int kElements = kBlock / 32 * kTile;
  __shared__ int64_t ticket;
  if (threadIdx.x == 0)
    ticket = static_cast<int64_t>(atomicAdd(reinterpret_cast<uint32_t*>(p.s[s_flags]) + p.s[s_ticket], 1u));
  __syncthreads();
  const int64_t tile = ticket / p.s[s_lines], line = ticket - tile * p.s[s_lines];
  const int64_t left = p.s[s_length] - tile * kElements;
  if (left >= kElements)
    look<true>(p, line, tile, kElements);
  else
    look<false>(p, line, tile, static_cast<int>(left));
}

// ---- Folds ----

// A thread, or a warp for contiguous ranges of operations that may be grouped, per line and range.
template <int Threads>
QUARRY_FN void run_fold(const Params& p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const int64_t job = thread / Threads, lane = thread - job * Threads;
  if (job >= p.s[s_lines] * p.s[s_ranges]) return;  // whole warps
  const int64_t range = job / p.s[s_lines], line = job - range * p.s[s_lines];
  const int64_t begin = p.s[s_begins] ? reinterpret_cast<const int64_t*>(p.s[s_begins])[range] : 0;
  const int64_t end = p.s[s_begins] ? reinterpret_cast<const int64_t*>(p.s[s_ends])[range] : p.s[s_length];
  const Line at = line_at(p, line);
  const int64_t step = p.s[s_in_step];
  W acc;
  bool started = false;
  int64_t i = begin + lane;
  constexpr int U = 8;
  for (; i + (U - 1) * Threads < end; i += U * Threads) {
    T values[U];
#pragma unroll
    for (int u = 0; u < U; ++u) values[u] = load_one<T>(at.in + (i + u * Threads) * step);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      acc = started ? combine(acc, widen(values[u])) : widen(values[u]);
      started = true;
    }
  }
  for (; i < end; i += Threads) {
    const W value = widen(load_one<T>(at.in + i * step));
    acc = started ? combine(acc, value) : value;
    started = true;
  }
  if constexpr (Threads > 1) {
    const int64_t length = end - begin;
#pragma unroll
    for (int distance = Threads / 2; distance > 0; distance /= 2) {
      const W other = shuffle_down(acc, distance, Threads);
      if (lane < distance && lane + distance < length) acc = combine(acc, other);
    }
  }
  if (lane == 0) store_one<T>(at.out + range * p.s[s_out_step], static_cast<T>(acc));
}

#define QUARRY_KERNEL(name, call) \
  extern "C" __global__ void __launch_bounds__(kBlock) name(const __grid_constant__ Params p) { call(p); }
