//! An agent of a configuration file: `cargo run -p longhaul --example config_file -- longhaul.yml [KEY]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use longhaul::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else { return Err("name a longhaul.yml".into()) };
    // MCP servers, hooks and commands of the file find their programs in this environment.
    let mut builder = Agent::builder().from_config(path)?.child_environment(std::env::vars_os());
    if let Some(key) = arguments.next() {
        builder = builder.api_key(key);
    }
    let agent = builder.build().await?;
    println!("{}", agent.session().await?.turn("Why is the sky blue?").await?.finish().await?.text);
    Ok(())
}
