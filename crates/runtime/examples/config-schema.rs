//! Prints the JSON Schema of `longhaul.yml`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{:#}", longhaul::config::AgentConfig::json_schema())
}
