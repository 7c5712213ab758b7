//! Prints the JSON Schema of `SessionEvent`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{:#}", longhaul::SessionEvent::json_schema())
}
