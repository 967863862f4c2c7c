#include "reductions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "elementary.h"

namespace outrider {

namespace {

constexpr int kPiece = 8192;

struct Piece {
    float max;
    int64_t argmax;
    float sum;
};

int piece_size(int padded, int piece) { return std::min(kPiece, padded - piece * kPiece); }

}  // namespace

std::vector<RowStatistics> row_statistics(const std::vector<const float*>& rows, int n, const Kernels& kernels, Pool& pool, bool want_sum) {
    const int padded = (n + 15) / 16 * 16, n_pieces = (padded + kPiece - 1) / kPiece, n_items = int(rows.size()) * n_pieces;
    std::vector<Piece> pieces(static_cast<size_t>(n_items));
    std::vector<RowStatistics> result(rows.size());
    pool.run([&](int thread) {
        for (int item = thread; item < n_items; item += pool.size()) {
            const float* x = rows[size_t(item / n_pieces)] + item % n_pieces * kPiece;
            const int size = piece_size(padded, item % n_pieces);
            Piece& piece = pieces[size_t(item)];
            piece = {kernels.maximum(x, size), -1, 0.0f};
            const float* found = std::find(x, x + size, piece.max);
            if (found != x + size) piece.argmax = item % n_pieces * kPiece + (found - x);
        }
        pool.barrier();
        if (thread == 0)
            for (size_t r = 0; r < rows.size(); r++) {
                RowStatistics& row = result[r] = {-INFINITY, -1, 0.0};
                for (int p = 0; p < n_pieces; p++) {
                    const Piece& piece = pieces[r * size_t(n_pieces) + size_t(p)];
                    if (std::isnan(piece.max)) {
                        row = {NAN, -1, NAN};
                        break;
                    }
                    if (piece.max > row.max) row.max = piece.max, row.argmax = piece.argmax;
                }
            }
        pool.barrier();
        if (!want_sum) return;
        for (int item = thread; item < n_items; item += pool.size()) {
            const float* x = rows[size_t(item / n_pieces)] + item % n_pieces * kPiece;
            pieces[size_t(item)].sum = kernels.sum_exp(x, piece_size(padded, item % n_pieces), result[size_t(item / n_pieces)].max);
        }
    });
    if (want_sum)
        for (size_t r = 0; r < rows.size(); r++) {
            double sum = 0.0;
            for (int p = 0; p < n_pieces; p++) sum += double(pieces[r * size_t(n_pieces) + size_t(p)].sum);
            result[r].logsumexp = double(result[r].max) + logarithm(sum);
        }
    return result;
}

void top_k(const float* row, int n, int k, int64_t* ids, float* values) {
    using Entry = std::pair<float, int>;
    auto better = [](const Entry& a, const Entry& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; };
    std::vector<Entry> best;  // a heap whose front is the worst entry kept
    best.reserve(size_t(k));
    for (int i = 0; i < n; i++) {
        const Entry entry{row[i], i};
        if (int(best.size()) < k) {
            best.push_back(entry);
            std::push_heap(best.begin(), best.end(), better);
        } else if (better(entry, best.front())) {
            std::pop_heap(best.begin(), best.end(), better);
            best.back() = entry;
            std::push_heap(best.begin(), best.end(), better);
        }
    }
    std::sort_heap(best.begin(), best.end(), better);
    for (int i = 0; i < k; i++) ids[i] = best[size_t(i)].second, values[i] = best[size_t(i)].first;
}

}  // namespace outrider
