// A loaded model with its cache and threads: what the bindings expose.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cache.h"
#include "dispatch.h"
#include "forward.h"
#include "pool.h"
#include "reductions.h"
#include "weights.h"

namespace outrider {

struct EngineOptions {
    int threads;
    int n_context;
    int n_sequences;
    std::string isa;  // "" chooses the best
    std::vector<std::pair<int, int>> head_rows;  // ranges of the vocabulary that get logits; empty for all
    CacheType key_type, value_type;
};

class Engine {
public:
    Engine(const std::vector<std::string>& paths, const std::vector<TensorEntry>& table, const HyperParameters& hyper, const EngineOptions& options)
        : kernels(choose_kernels(options.isa)), pool(options.threads), weights(paths, table, hyper, options.head_rows, pool),
          cache({hyper.layers, hyper.kv_heads, hyper.head, options.key_type, options.value_type}, options.n_context, options.n_sequences), forward(weights, cache, kernels, pool) {}

    const Kernels& kernels;
    Pool pool;
    Weights weights;
    Cache cache;
    Forward forward;
};

}  // namespace outrider
