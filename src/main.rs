//! Arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    portcullis::cli::main(portcullis::serve)
}
