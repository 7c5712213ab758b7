//! Prints the description of the API (OpenAPI 3.1): `docs/openapi.json`.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(longhaul_server::openapi().as_bytes())
}
