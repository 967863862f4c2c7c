// A fuzz target without libFuzzer: random inputs, or the given files.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int n_arguments, char** arguments) {
    using namespace outrider::testing;
    for (int i = 1; i < n_arguments; i++) {
        std::ifstream file(arguments[i], std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
    const char* wanted = std::getenv("OUTRIDER_FUZZ_RUNS");
    for (int run = 0, n_runs = n_arguments > 1 ? 0 : wanted ? std::atoi(wanted) : 300; run < n_runs; run++) {
        Random random(static_cast<uint64_t>(run));
        std::vector<uint8_t> bytes(size_t(random.below(400)));
        random.fill(bytes.data(), bytes.size());
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        CHECK(true);
    }
    return finish("random input");
}
