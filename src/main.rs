//! Arguments in, exit code out.

use std::process::ExitCode;

/// Requests are handled on many threads at once, for which the system's allocator has one lock too many.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    portcullis::cli::main(portcullis::serve, portcullis::witness)
}
