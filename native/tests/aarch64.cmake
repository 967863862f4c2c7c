# Cross-compiles the tests for AArch64 with Debian's g++-aarch64-linux-gnu, and runs them under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR env;OUTRIDER_EMULATED=1;qemu-aarch64;-L;/usr/aarch64-linux-gnu)
