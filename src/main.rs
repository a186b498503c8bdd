//! Arguments in, exit code out.

use std::process::ExitCode;

use portcullis::upstream;

/// Requests are handled on many threads at once, for which the system's allocator has one lock too many.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // No command for people: the gateway starts itself so, once for each program that it runs.
    if arguments.next().is_some_and(|word| word == upstream::SUPERVISE) {
        return upstream::supervise(arguments.collect());
    }
    portcullis::cli::main(portcullis::serve, portcullis::stdio, portcullis::witness)
}
