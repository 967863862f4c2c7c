// Attention of a tile of queries over one chunk of keys: scores, weights, outputs. Written once, for every type of cache.
//
// A query's numbers come from its own keys in the order of positions, whatever the other queries of the tile see.
#pragma once
#include "kernels.h"

namespace {

using namespace outrider;

#define OUTRIDER_QUERIES OUTRIDER_UNROLL(8) for (int t = 0; t < N; t++)

// How far ahead f16 keys and values are asked for. Measured on Zen 4, one thread, 6 queries over 16k keys of 128: 1.44 -> 1.27 ms a
// layer; 48 queries, limited by arithmetic, unchanged. With half the bytes, q8_0, it cost 8 %.
constexpr int kAttendAhead = 4096;
constexpr float kHidden = -3e38f;  // the score of a key that a query does not see: its weight is exactly zero

template <int N>
inline KeyRange union_of(const KeyRange* visible) {
    KeyRange all = visible[0];
    for (int t = 1; t < N; t++) {
        all.begin = visible[t].begin < all.begin ? visible[t].begin : all.begin;
        all.end = visible[t].end > all.end ? visible[t].end : all.end;
    }
    return all;
}

// Empty, at kChunk, where the queries have no key in common.
template <int N>
inline KeyRange intersection_of(const KeyRange* visible) {
    KeyRange shared = visible[0];
    for (int t = 1; t < N; t++) {
        shared.begin = visible[t].begin > shared.begin ? visible[t].begin : shared.begin;
        shared.end = visible[t].end < shared.end ? visible[t].end : shared.end;
    }
    if (shared.begin >= shared.end) shared = {kChunk, kChunk};
    return shared;
}

template <int N>
void score_f16(const AttendJob& job) {
    const KeyRange all = union_of<N>(job.visible);
    for (int k = all.begin / 16 * 16; k < all.end; k += 16)
        for (int lane = 0; lane < 16; lane += Isa::kLanes) {
            const uint16_t* keys = reinterpret_cast<const uint16_t*>(job.keys) + k * job.head + lane;
            Floats score[N];
            OUTRIDER_QUERIES score[t] = Isa::zero_float();
            for (int d = 0; d < job.head; d++) {
                if (d % 2 == 0) Isa::prefetch(keys + d * 16 + kAttendAhead / 2);
                const Floats key = Isa::load_half(keys + d * 16);
                OUTRIDER_QUERIES score[t] = Isa::fma(key, Isa::broadcast_float(job.queries[t * kMaxHead + d]), score[t]);
            }
            OUTRIDER_QUERIES Isa::store(job.scores + t * kChunk + k + lane, score[t]);
        }
}

// Queries become int8 as keys are, so that 4 dimensions of 16 keys are one instruction.
template <int N>
void score_q80(const AttendJob& job) {
    const KeyRange all = union_of<N>(job.visible);
    const int n_blocks = job.head / kCacheBlock;
    int32_t values[kMaxHead / 4 * N], offsets[kMaxHead / kCacheBlock * N];
    float query_scales[kMaxHead / kCacheBlock * N];
    for (int t = 0; t < N; t++)
        for (int b = 0; b < n_blocks; b++) {
            int8_t q[kCacheBlock];
            query_scales[b * N + t] = quantise_block<kCacheBlock>(job.queries + t * kMaxHead + b * kCacheBlock, q);
            for (int c = 0; c < 8; c++) values[(b * 8 + c) * N + t] = four_bytes(q + c * 4);
            offsets[b * N + t] = -Isa::kSigned * sum_bytes(q, kCacheBlock);
        }
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(job.keys + kChunk * job.head);
    for (int k = all.begin / 16 * 16; k < all.end; k += 16)
        for (int lane = 0; lane < 16; lane += Isa::kLanes) {
            Floats score[N];
            OUTRIDER_QUERIES score[t] = Isa::zero_float();
            for (int b = 0; b < n_blocks; b++) {
                const uint8_t* stripes = job.keys + k * job.head + b * 8 * 64 + lane * 4;
                Ints dot[N];
                OUTRIDER_QUERIES dot[t] = Isa::broadcast(offsets[b * N + t]);
                OUTRIDER_UNROLL(8) for (int c = 0; c < 8; c++) {
                    const Bytes keys = Isa::load_bytes(stripes + c * 64);
                    OUTRIDER_QUERIES dot[t] = Isa::dot_signed(dot[t], keys, Isa::spread(values[(b * 8 + c) * N + t]));
                }
                const Floats scale = Isa::load_half(scales + (k / 16 * n_blocks + b) * 16 + lane);
                OUTRIDER_QUERIES score[t] = Isa::fma(Isa::to_float(dot[t]), Isa::multiply_float(scale, Isa::broadcast_float(query_scales[b * N + t])), score[t]);
            }
            OUTRIDER_QUERIES Isa::store(job.scores + t * kChunk + k + lane, score[t]);
        }
}

// Scores to exp(score - max), keys out of sight to zero.
void weigh(const AttendJob& job, int n) {
    for (int t = 0; t < n; t++) {
        float* row = job.scores + t * kChunk;
        const KeyRange visible = job.visible[t];
        const int begin = visible.begin / 16 * 16, end = (visible.end + 15) / 16 * 16;
        for (int k = begin; k < visible.begin; k++) row[k] = kHidden;
        for (int k = visible.end; k < end; k++) row[k] = kHidden;
        Floats parts[kSplit];
        for (int s = 0; s < kSplit; s++) parts[s] = Isa::load(row + begin + s * Isa::kLanes);
        for (int k = begin + 16; k < end; k += 16)
            for (int s = 0; s < kSplit; s++) parts[s] = Isa::max(parts[s], Isa::load(row + k + s * Isa::kLanes));
        const float max = fold_max(parts);
        for (int s = 0; s < kSplit; s++) parts[s] = Isa::zero_float();
        for (int k = begin; k < end; k += 16)
            for (int s = 0; s < kSplit; s++) {
                float* p = row + k + s * Isa::kLanes;
                const Floats weight = exponential(Isa::subtract(Isa::load(p), Isa::broadcast_float(max)));
                Isa::store(p, weight);
                parts[s] = Isa::add_float(parts[s], weight);
            }
        job.max[t] = max;
        job.sum[t] = fold_sum(parts);
    }
}

// One vector of dimensions of consecutive values.
struct HalfValues {
    const uint16_t* start;
    const uint16_t* at(int k) const { return start + k * 16; }
    Floats load(int k) const { return Isa::load_half(at(k)); }
    void prefetch(int k) const {
        if (k % 2 == 0) Isa::prefetch(at(k) + kAttendAhead / 2);
    }
};

struct ByteValues {
    const int8_t* start;
    const int8_t* at(int k) const { return start + k * 16; }
    Floats load(int k) const { return Isa::to_float(Isa::widen_signed(at(k))); }
    void prefetch(int) const {}
};

// Values of one vector of dimensions times the weights: first what only some queries see, then what all see, then the rest.
template <int N, class Values>
inline __attribute__((always_inline)) void mix_lanes(const AttendJob& job, KeyRange shared, const float* weights, Values values, float* out) {
    Floats sum[N];
    OUTRIDER_QUERIES {
        sum[t] = Isa::zero_float();
        const int end = job.visible[t].end < shared.begin ? job.visible[t].end : shared.begin;
        for (int k = job.visible[t].begin; k < end; k++) sum[t] = Isa::fma(values.load(k), Isa::broadcast_float(weights[t * kChunk + k]), sum[t]);
    }
    for (int k = shared.begin; k < shared.end; k++) {
        values.prefetch(k);
        const Floats value = values.load(k);
        OUTRIDER_QUERIES sum[t] = Isa::fma(value, Isa::broadcast_float(weights[t * kChunk + k]), sum[t]);
    }
    OUTRIDER_QUERIES {
        for (int k = shared.end; k < job.visible[t].end; k++) sum[t] = Isa::fma(values.load(k), Isa::broadcast_float(weights[t * kChunk + k]), sum[t]);
        Isa::store(out + t * kMaxHead, sum[t]);
    }
}

template <int N>
void mix_f16(const AttendJob& job) {
    const KeyRange shared = intersection_of<N>(job.visible);
    for (int d = 0; d < job.head; d += Isa::kLanes) {
        const uint16_t* values = reinterpret_cast<const uint16_t*>(job.values) + d / 16 * 16 * kChunk + d % 16;
        mix_lanes<N>(job, shared, job.scores, HalfValues{values}, job.out + d);
    }
}

template <int N>
void mix_q80(const AttendJob& job) {
    const KeyRange shared = intersection_of<N>(job.visible);
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(job.values + kChunk * job.head);
    float scaled[N * kChunk];
    for (int b = 0; b < job.head / kCacheBlock; b++) {
        // One multiplication per key and query, rather than one per dimension as well.
        for (int t = 0; t < N; t++)
            for (int k = job.visible[t].begin / 16 * 16; k < job.visible[t].end; k += Isa::kLanes)
                Isa::store(scaled + t * kChunk + k, Isa::multiply_float(Isa::load(job.scores + t * kChunk + k), Isa::load_half(scales + b * kChunk + k)));
        for (int d = b * kCacheBlock; d < (b + 1) * kCacheBlock; d += Isa::kLanes) {
            const int8_t* values = reinterpret_cast<const int8_t*>(job.values) + d / 16 * 16 * kChunk + d % 16;
            mix_lanes<N>(job, shared, scaled, ByteValues{values}, job.out + d);
        }
    }
}

#define OUTRIDER_ATTEND(kernel) {kernel<1>, kernel<2>, kernel<3>, kernel<4>, kernel<5>, kernel<6>, kernel<7>, kernel<8>}

}  // namespace
