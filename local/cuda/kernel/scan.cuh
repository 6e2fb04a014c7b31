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
  const char* before;
};
QUARRY_FN Line line_at(const Params& p, int64_t line) {
  int64_t rest = line / p.s[s_lanes];
  const int64_t lane = line - rest * p.s[s_lanes];
  Line at{reinterpret_cast<const char*>(p.s[s_in]) + lane * p.s[s_in_lane],
          reinterpret_cast<char*>(p.s[s_out]) + lane * p.s[s_out_lane],
          reinterpret_cast<const char*>(p.s[s_before]) + lane * p.s[s_before_lane]};
  for (int64_t d = p.s[s_axes]; d-- > 0;) {
    const int64_t* axis = p.s + s_first_axis + kAxisSlots * d;
    const int64_t next = rest / axis[0], position = rest - next * axis[0];
    at.in += position * axis[1];
    at.out += position * axis[2];
    at.before += position * axis[3];
    rest = next;
  }
  return at;
}

// Results are what precedes the line, where there is something, with the line's own scan.
struct Results {
  bool is_after;
  W before;
  inline __device__ Results(const Params& p, const Line& at) : is_after(p.s[s_before] != 0) {
    if (is_after) before = widen(load_one<T>(at.before));
  }
  inline __device__ T operator()(W scanned) const {
    const T own = static_cast<T>(scanned);
    return is_after ? static_cast<T>(combine(before, widen(own))) : own;
  }
};

// ---- A thread per line ----

// A thread per line, in order. Neighbouring threads take neighbouring lines. Here and below: `Last` stores the last
// element of every line alone, combined as it is in the whole scan.
template <bool Last>
QUARRY_FN void run_lines(const Params& p) {
  constexpr int U = 8;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (line >= p.s[s_lines]) return;
  const int64_t length = p.s[s_length], in_step = p.s[s_in_step], out_step = p.s[s_out_step];
  const Line at = line_at(p, line);
  const Results result(p, at);
  const char* x = at.in;
  char* y = at.out;
  W acc;
  int64_t i = 0;
  for (; i + U <= length; i += U) {
    In values[U];
#pragma unroll
    for (int u = 0; u < U; ++u) values[u] = load_one<In>(x + u * in_step);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const W value = widen(values[u]);
      acc = i + u > 0 ? combine(acc, value) : value;
      if constexpr (!Last) store_one<T>(y + u * out_step, result(acc));
    }
    x += U * in_step;
    y += U * out_step;
  }
  for (; i < length; ++i) {
    const W value = widen(load_one<In>(x));
    acc = i > 0 ? combine(acc, value) : value;
    if constexpr (!Last) store_one<T>(y, result(acc));
    x += in_step;
    y += out_step;
  }
  if constexpr (Last) store_one<T>(at.out, result(acc));
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
QUARRY_FN W shuffle_across(W x, int lanes) {
  return shuffled(x, [=](uint32_t w) { return __shfl_xor_sync(0xffffffffu, w, lanes); });
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
  if (Full && p.s[s_dense]) {
    const char* const x = from + lane * (V * sizeof(In));
#pragma unroll
    for (int c = 0; c < C; ++c) load_vector<In, V>(x + c * (kChunk * sizeof(In)), values[c]);
  } else {
    const char* x = from + lane * V * step;
#pragma unroll
    for (int c = 0; c < C; ++c, x += kChunk * step) {
      const int mine = present<Full>(count, c, lane);
      if (p.s[s_dense] && mine >= V)
        load_vector<In, V>(x, values[c]);
      else
        load_strided<In, V>(x, step, mine, values[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < present<Full>(count, c, lane)) own[c][v] = widen(values[c][v]);
}

template <bool Full>
QUARRY_FN void store_tile(const Params& p, const Results& result, char* to, int count, int lane, const W (&own)[C][V]) {
  const int64_t step = p.s[s_out_step];
  T values[V];
  if (Full && p.s[s_dense]) {
    char* const y = to + lane * (V * sizeof(T));
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
      for (int v = 0; v < V; ++v) values[v] = result(own[c][v]);
      store_vector<T, V>(y + c * (kChunk * sizeof(T)), values);
    }
    return;
  }
  char* y = to + lane * V * step;
#pragma unroll
  for (int c = 0; c < C; ++c, y += kChunk * step) {
    const int mine = present<Full>(count, c, lane);
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (v < mine) values[v] = result(own[c][v]);
    if (p.s[s_dense] && mine >= V)
      store_vector<T, V>(y, values);
    else
      store_strided<T, V>(y, step, mine, values);
  }
}
// The last element of a tile alone.
QUARRY_FN void store_last(const Results& result, char* to, int count, int lane, const W (&own)[C][V]) {
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int v = 0; v < V; ++v)
      if (c * kChunk + lane * V + v == count - 1) store_one<T>(to, result(own[c][v]));
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

// The fold of a whole tile alone, after `all` where `carried`, combined as scan_tile() does: pairs, pairs of pairs.
// First lanes exchange chunks for each other, so that every lane goes on with half as many.
template <int N, int Distance>
QUARRY_FN W fold_lanes(W (&parts)[C], int lane) {
  if constexpr (Distance == 32) {
    return parts[0];
  } else {
    const bool upper = (lane & Distance) != 0;
#pragma unroll
    for (int k = 0; k < (N > 1 ? N / 2 : 1); ++k) {
      W own = parts[k], given = parts[k];
      if constexpr (N > 1) {
        own = upper ? parts[2 * k + 1] : parts[2 * k];
        given = upper ? parts[2 * k] : parts[2 * k + 1];
      }
      const W other = shuffle_across(given, Distance);
      parts[k] = upper ? combine(other, own) : combine(own, other);
    }
    return fold_lanes<(N > 1 ? N / 2 : 1), 2 * Distance>(parts, lane);
  }
}
QUARRY_FN W fold_tile(W all, bool carried, int lane, const W (&own)[C][V]) {
  W parts[C];
#pragma unroll
  for (int c = 0; c < C; ++c) {
    parts[c] = own[c][0];
#pragma unroll
    for (int v = 1; v < V; ++v) parts[c] = combine(parts[c], own[c][v]);
  }
  const W chunk = fold_lanes<C, 1>(parts, lane);  // of the chunk lane % C
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const W next = shuffle_from(chunk, c);
    all = carried ? combine(all, next) : next;
    carried = true;
  }
  return all;
}

// Many lines: a warp takes the tiles of one after the other.
template <bool Full, bool Last>
QUARRY_FN void step_warp(const Params& p, const Line& at, const Results& result, int64_t base, int count, int lane,
                         W& carry) {
  W own[C][V];
  load_tile<Full>(p, at.in + base * p.s[s_in_step], count, lane, own);
  if constexpr (Full && Last) {
    if (base + count < p.s[s_length]) {
      carry = fold_tile(carry, base > 0, lane, own);
      return;
    }
  }
  carry = scan_tile<Full>(carry, base > 0, count, lane, own);
  if constexpr (!Last)
    store_tile<Full>(p, result, at.out + base * p.s[s_out_step], count, lane, own);
  else if (base + count == p.s[s_length])
    store_last(result, at.out, count, lane, own);
}
template <bool Last>
QUARRY_FN void run_warps(const Params& p) {
  const int lane = threadIdx.x % 32;
  const int64_t line = static_cast<int64_t>(blockIdx.x) * (kBlock / 32) + threadIdx.x / 32, length = p.s[s_length];
  if (line >= p.s[s_lines]) return;  // whole warps
  const Line at = line_at(p, line);
  const Results result(p, at);
  W carry;
  int64_t base = 0;
  for (; base + kTile <= length; base += kTile) step_warp<true, Last>(p, at, result, base, kTile, lane, carry);
  if (base < length) step_warp<false, Last>(p, at, result, base, static_cast<int>(length - base), lane, carry);
}

// ---- Few lines: a block per tile, one read ----

// Blocks take the tiles in order by a ticket, so that a block waits for blocks that run already. Every tile publishes
// its fold. kFan tiles are a group, kFan groups a section; the last tile of a group publishes the group's fold, the
// last of a section the fold of everything up to there. A tile's prefix is then sections, groups of its section, tiles
// of its group: always the same grouping, unlike a look-back that takes what happens to be ready.

// Published values. Every 4 bytes of one lie in a word with a mark: who reads the mark has read the bytes, so that
// neither side needs a fence, and waiting takes one access. The memory holds zeros at first.
constexpr int kWords = words_of(sizeof(W));
struct Chain {
  volatile uint64_t* words;
  int64_t step;  // from one value to the next
  inline __device__ Chain(const Params& p, int64_t first, int64_t step)
      : words(reinterpret_cast<volatile uint64_t*>(p.s[s_chain]) + first * kWords), step(step * kWords) {}
  inline __device__ void publish(int64_t at, W value) const {
    uint32_t bytes[kWords] = {};
    memcpy(&bytes, &value, sizeof(W));
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[at * step + i] = uint64_t{bytes[i]} << 32 | 1;
  }
  inline __device__ bool ready(int64_t at, W& value) const {
    uint64_t read[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) read[i] = words[at * step + i];
    uint32_t bytes[kWords];
    bool all = true;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      all = all && (read[i] & 1) != 0;
      bytes[i] = static_cast<uint32_t>(read[i] >> 32);
    }
    memcpy(&value, &bytes, sizeof(W));
    return all;
  }
  inline __device__ W await(int64_t at) const {
    W value;
    while (!ready(at, value)) {
    }
    return value;
  }
  // The fold of `count` values from `first` on, on every lane; count > 0.
  inline __device__ W await_by_warp(int64_t first, int count, int lane) const {
    W value;
    if (lane < count) value = await(first + lane);
    return shuffle_from(scan_lanes(value, lane, count), count - 1);
  }
  // The same by one thread, in order; 0 < count <= N.
  template <int N>
  inline __device__ W await_in_order(int64_t first, int count) const {
    W values[N];
    bool all;
    do {  // all reads at once
      all = true;
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (i < count && !ready(first + i, values[i])) all = false;
    } while (!all);
#pragma unroll
    for (int i = 1; i < N; ++i)
      if (i < count) values[0] = combine(values[0], values[i]);
    return values[0];
  }
};
struct Chains {
  int64_t tile, tiles, group, groups, section, sections;  // this one, and how many there are in a line
  int tiles_before, groups_before;                        // in its group, and in its section
  inline __device__ Chains(const Params& p, int64_t tile)
      : tile(tile),
        tiles(p.s[s_tiles]),
        group(tile / kFan),
        groups((tiles + kFan - 1) / kFan),
        section(group / kFan),
        sections((groups + kFan - 1) / kFan),
        tiles_before(static_cast<int>(tile % kFan)),
        groups_before(static_cast<int>(group % kFan)) {}
  inline __device__ bool ends_group() const { return tiles_before == kFan - 1; }
  inline __device__ bool ends_section() const { return ends_group() && groups_before == kFan - 1; }
  inline __device__ bool ends_line() const { return tile == tiles - 1; }
};

QUARRY_FN int64_t take_ticket(const Params& p) {
  __shared__ int64_t ticket;
  if (threadIdx.x == 0) ticket = static_cast<int64_t>(atomicAdd(reinterpret_cast<uint32_t*>(p.s[s_ticket]), 1u));
  __syncthreads();
  return ticket;
}

// A fold that begins with the first value that is appended.
struct Fold {
  W value;
  bool any = false;
  inline __device__ void append(W next) {
    value = any ? combine(value, next) : next;
    any = true;
  }
};

// Memory runs along the lines: a block takes a tile of one.
template <bool Full, bool Last>
QUARRY_FN void look(const Params& p, int64_t line, int64_t tile, int count) {
  constexpr int kWarps = kBlock / 32;
  __shared__ W folds[kWarps];
  __shared__ W ahead[3];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Chains now(p, tile);
  const int64_t lines = p.s[s_lines];
  const Chain of_tiles(p, line * now.tiles, 1);
  const Chain of_groups(p, lines * now.tiles + line * now.groups, 1);
  const Chain of_sections(p, lines * (now.tiles + now.groups) + line * now.sections, 1);

  const Line at = line_at(p, line);
  const int64_t base = tile * (kWarps * kTile) + warp * kTile;
  const int left = count - warp * kTile, mine = Full || left > kTile ? kTile : left;
  W own[C][V];
  if (mine > 0) {
    load_tile<Full>(p, at.in + base * p.s[s_in_step], mine, lane, own);
    W fold;
    if (Full && Last && !now.ends_line())
      fold = fold_tile(own[0][0], /*carried=*/false, lane, own);
    else
      fold = scan_tile<Full>(own[0][0], /*carried=*/false, mine, lane, own);
    if (lane == 0) folds[warp] = fold;
  }
  __syncthreads();
  const int warps = (count + kTile - 1) / kTile;
  const auto fold_of_tile = [&] {
    W fold = folds[0];
    for (int w = 1; w < warps; ++w) fold = combine(fold, folds[w]);
    return fold;
  };
  if (threadIdx.x == 0) of_tiles.publish(tile, fold_of_tile());
  if (Last && !now.ends_group() && !now.ends_line()) return;
  const bool wants_all = !Last || now.ends_section() || now.ends_line();
  if (warp == 0) {
    W fold = fold_of_tile();
    if (now.tiles_before > 0) {
      const W before = of_tiles.await_by_warp(tile - now.tiles_before, now.tiles_before, lane);
      if (lane == 0) ahead[0] = before;
      fold = combine(before, fold);
    }
    if (lane == 0 && now.ends_group()) of_groups.publish(now.group, fold);
  } else if (warp == 1 && now.groups_before > 0 && wants_all) {
    const W before = of_groups.await_by_warp(now.group - now.groups_before, now.groups_before, lane);
    if (lane == 0) ahead[1] = before;
  } else if (warp == 2 && now.section > 0 && wants_all && lane == 0) {
    ahead[2] = of_sections.await(now.section - 1);
  }
  if (!wants_all) return;
  __syncthreads();
  Fold before;
  if (now.section > 0) before.append(ahead[2]);
  if (now.groups_before > 0) before.append(ahead[1]);
  if (now.tiles_before > 0) before.append(ahead[0]);
  if (threadIdx.x == 0 && now.ends_section()) of_sections.publish(now.section, combine(before.value, fold_of_tile()));
  if (Last && !now.ends_line()) return;
  for (int w = 0; w < warp && w < warps; ++w) before.append(folds[w]);
  if (mine > 0) {
    if (before.any) prepend<Full>(before.value, mine, lane, own);
    const Results result(p, at);
    if constexpr (!Last)
      store_tile<Full>(p, result, at.out + base * p.s[s_out_step], mine, lane, own);
    else if (warp == warps - 1)
      store_last(result, at.out, mine, lane, own);
  }
}

template <bool Last>
QUARRY_FN void run_look(const Params& p) {
  constexpr int kElements = kBlock / 32 * kTile;
  const int64_t ticket = take_ticket(p);
  const int64_t tile = ticket / p.s[s_lines], line = ticket - tile * p.s[s_lines];
  const int64_t left = p.s[s_length] - tile * kElements;
  if (left >= kElements)
    look<true, Last>(p, line, tile, kElements);
  else
    look<false, Last>(p, line, tile, static_cast<int>(left));
}

// Memory runs across the lines: a block takes a tile of s_width neighbours, cut into strips of kRows rows, a thread a
// line of a strip. Neighbouring threads take neighbouring lines.
template <bool Last>
QUARRY_FN void run_across(const Params& p) {
  constexpr int kRows = rows_of(sizeof(In) > sizeof(W) ? sizeof(In) : sizeof(W));
  constexpr int kAwaiting = kBlock / kWidth, kEach = kFan / kAwaiting;  // strips that wait, for so many values
  __shared__ W folds[kBlock];  // of strips; then of what is before each in the tile
  __shared__ W ahead[2][kAwaiting * kWidth];
  __shared__ W all_before[kWidth];
  const int64_t lines = p.s[s_lines], width = p.s[s_width], length = p.s[s_length];
  const int64_t blocks = (lines + width - 1) / width, ticket = take_ticket(p);
  const Chains now(p, ticket / blocks);
  const int column = threadIdx.x % static_cast<int>(width), strip = threadIdx.x / static_cast<int>(width);
  const int64_t line = (ticket - now.tile * blocks) * width + column;
  const bool active = line < lines;
  const int64_t first_row = now.tile * (kBlock / width * kRows), first = first_row + strip * kRows;
  const int count = !active || first >= length ? 0 : length - first < kRows ? static_cast<int>(length - first) : kRows;
  const int64_t strips_left = (length - first_row + kRows - 1) / kRows;
  const int strips = static_cast<int>(strips_left < kBlock / width ? strips_left : kBlock / width);
  // A line's values are as far from each other as lines are many.
  const Chain of_tiles(p, active ? line : 0, lines);
  const Chain of_groups(p, lines * now.tiles + (active ? line : 0), lines);
  const Chain of_sections(p, lines * (now.tiles + now.groups) + (active ? line : 0), lines);

  const Line at = line_at(p, active ? line : 0);
  W own[kRows];
  {
    In values[kRows];
    const char* x = at.in + first * p.s[s_in_step];
#pragma unroll
    for (int i = 0; i < kRows; ++i, x += p.s[s_in_step])
      if (i < count) values[i] = load_one<In>(x);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      if (i < count) own[i] = widen(values[i]);
  }
  W fold = own[0];
#pragma unroll
  for (int i = 1; i < kRows; ++i)
    if (i < count) own[i] = fold = combine(fold, own[i]);
  if (count > 0) folds[threadIdx.x] = fold;
  __syncthreads();
  const bool leads = active && strip == 0;
  if (leads) {
    fold = folds[column];
    for (int s = 1; s < strips; ++s) {
      W& place = folds[s * static_cast<int>(width) + column];
      const W next = place;
      place = fold;
      fold = combine(fold, next);
    }
    of_tiles.publish(now.tile, fold);  // and keeps it
  }
  if (Last && !now.ends_group() && !now.ends_line()) return;
  const auto await_values = [&](const Chain& chain, int64_t from, int values, W* to) {
    const int begin = strip * kEach, rest = values - begin;
    if (active && strip < kAwaiting && rest > 0)
      to[strip * kWidth + column] = chain.await_in_order<kEach>(from + begin, rest < kEach ? rest : kEach);
  };
  const auto awaited = [&](const W* from, int values) {
    W sum = from[column];
    for (int s = 1; s * kEach < values; ++s) sum = combine(sum, from[s * kWidth + column]);
    return sum;
  };
  await_values(of_tiles, now.tile - now.tiles_before, now.tiles_before, ahead[0]);
  __syncthreads();
  W tiles_fold;
  if (leads) {
    if (now.tiles_before > 0) tiles_fold = awaited(ahead[0], now.tiles_before);
    if (now.ends_group()) of_groups.publish(now.group, combine(tiles_fold, fold));
  }
  if (Last && !now.ends_section() && !now.ends_line()) return;
  await_values(of_groups, now.group - now.groups_before, now.groups_before, ahead[1]);
  __syncthreads();
  const bool continues = now.tile > 0;
  if (leads && continues) {
    Fold before;
    if (now.section > 0) before.append(of_sections.await(now.section - 1));
    if (now.groups_before > 0) before.append(awaited(ahead[1], now.groups_before));
    if (now.tiles_before > 0) before.append(tiles_fold);
    if (now.ends_section()) of_sections.publish(now.section, combine(before.value, fold));
    all_before[column] = before.value;
  }
  if (Last && !now.ends_line()) return;
  __syncthreads();
  if (count == 0) return;
  Fold before;
  if (continues) before.append(all_before[column]);
  if (strip > 0) before.append(folds[threadIdx.x]);
  const Results result(p, at);
  char* y = at.out + first * p.s[s_out_step];
#pragma unroll
  for (int i = 0; i < kRows; ++i, y += p.s[s_out_step]) {
    if (i >= count || (Last && first + i != length - 1)) continue;
    const W scanned = before.any ? combine(before.value, own[i]) : own[i];
    if constexpr (Last)
      store_one<T>(at.out, result(scanned));
    else
      store_one<T>(y, result(scanned));
  }
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

// `blocks`: so many at once on a multiprocessor, at least.
#define QUARRY_KERNEL(name, call, blocks) \
  extern "C" __global__ void __launch_bounds__(kBlock, blocks) name(const __grid_constant__ Params p) { call(p); }
