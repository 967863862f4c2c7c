// What the core knows about each weight format: its shape in the file, its panels, and how to go from one to the other.
#pragma once
#include <cstddef>
#include <cstdint>

#include "panels.h"

namespace outrider {

struct FormatInfo {
    Format format;
    int type;         // the file's type id
    const char* name;
    int block;        // columns of a file block
    int block_bytes;
    int panel_columns;
    int panel_bytes;
    ActivationKind activation;
    // One source row as row `row` of a zeroed row group; `columns` is a multiple of `block`.
    void (*pack_row)(const uint8_t* source, int columns, int row, uint8_t* group);
    // The row's weights exactly as the format's reference dequantisation gives them.
    void (*unpack_row)(const uint8_t* group, int columns, int row, float* out);
};

// Null where the type is not one of ours.
const FormatInfo* find_format(int type);
const FormatInfo& format_info(Format format);

float half_to_float(uint16_t half);

}  // namespace outrider
