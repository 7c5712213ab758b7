//! The command line of `longhaul`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use clap::{Args as Group, Parser, Subcommand};

const AFTER: &str = "\
Exit status: 0 done · 1 the run ended otherwise than by its answer · 2 usage or configuration · 130 cancelled.
Data goes to standard output, everything else to standard error.

Without a command: `serve --open`, with the options of `serve`.

Try it without a model:
  longhaul demo
  longhaul --provider scripted chat
      an echo that calls tools: `!ls -la` makes it call bash, `@FILE` read";

/// Agents whose conversations never run out of room and never lose anything.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, after_help = AFTER, max_term_width = 100)]
pub(crate) struct CliArgs {
    /// What holds for every command.
    #[command(flatten)]
    pub(crate) globals: GlobalArgs,
    /// What holds without a command.
    #[command(flatten, next_help_heading = "Without a command")]
    pub(crate) bare: ServeArgs,
    /// The command; without one it serves, and opens the page.
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

impl CliArgs {
    /// Returns whether the process serves until it is told to end.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self.command, None | Some(CliCommand::Serve(_)))
    }
}

/// What holds for every command.
#[derive(Clone, Debug, Default, Group)]
pub(crate) struct GlobalArgs {
    /// The agent file [default: ./longhaul.yml, then the one in your configuration folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Where sessions are kept [default: your data folder]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder the agent works in [default: here]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) workspace: Option<PathBuf>,
    /// Who serves the model: openai-compatible, openai, anthropic, gemini, ollama, or scripted (an echo for trials)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    pub(crate) provider: Option<String>,
    /// The model, as its server calls it
    #[arg(long, global = true, value_name = "NAME", help_heading = "Everywhere")]
    pub(crate) model: Option<String>,
    /// Where the server is, up to and with /v1
    #[arg(long, global = true, value_name = "URL", help_heading = "Everywhere")]
    pub(crate) base_url: Option<String>,
}

/// A count of something that is asked for.
fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// The name of a strategy.
fn strategies() -> PossibleValuesParser {
    PossibleValuesParser::new(longhaul_core::strategy::NAMES.iter().copied())
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Talk with the agent; type while it works, Ctrl-C cancels
    Chat(ChatArgs),
    /// Give the agent one task and print its answer
    Run(RunArgs),
    /// See a conversation outgrow its window, without a model, in a minute
    Demo(DemoArgs),
    /// List, show, export, import, fork and delete sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show what fills a session's context window
    Context(ContextArgs),
    /// Compact a session now, or see what that would do
    Compact(CompactArgs),
    /// List a session's compactions: when, why, what each left, what it cost, and whether it can be undone
    Compactions(CompactionsArgs),
    /// Undo a compaction or a prune: the newest, or the one named
    Undo(UndoArgs),
    /// List a session's standing orders: what the model is always shown
    Orders(OrdersArgs),
    /// Get back anything a session ever contained, by words or by handle
    Recall(RecallArgs),
    /// Count the tokens of a file
    Tokens(TokensArgs),
    /// List the models: windows, abilities, prices, and who says so
    Models(ModelsArgs),
    /// Serve sessions over HTTP until it is told to end; prints its address when it is ready
    Serve(ServeArgs),
    /// Be the agent of an editor, over standard input and output (Agent Client Protocol)
    Acp(AcpArgs),
    /// Offer what the sessions hold to any MCP client, over standard input and output: recall, search, status, compact
    Mcp,
    /// Replay recorded sessions under context policies: what each costs and keeps
    #[command(subcommand)]
    Lab(LabCommand),
    /// Point a client at the gateway: print what it needs, write it down, or start it so
    Wrap(WrapArgs),
    /// Carry all sessions from the data folder into a PostgreSQL, or back
    Migrate(MigrateArgs),
    /// Copy all sessions into an empty folder, also while a server has them
    Backup(BackupArgs),
    /// Put the sessions of a backup where no others are
    Restore(RestoreArgs),
    /// See what is here: servers, keys, folders, sandbox
    Doctor,
}

/// `migrate`.
#[derive(Debug, Group)]
pub(crate) struct MigrateArgs {
    /// The PostgreSQL that the data folder's sessions are carried to
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) to: Option<String>,
    /// The PostgreSQL whose sessions are carried into the data folder
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    /// Where the images and long outputs of that database are: s3://BUCKET/PREFIX or a path [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) blobs: Option<String>,
}

/// `restore`.
#[derive(Debug, Group)]
pub(crate) struct RestoreArgs {
    /// The folder of the backup
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The PostgreSQL that the sessions are put into [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: where its images and long outputs go, s3://BUCKET/PREFIX or a path [default: the data folder]
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
}

/// `backup`.
#[derive(Debug, Group)]
pub(crate) struct BackupArgs {
    /// The folder of the backup
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// The PostgreSQL with the sessions [default: the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: where its images and long outputs are, s3://BUCKET/PREFIX or a path
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
}

/// `wrap`.
#[derive(Debug, Group)]
pub(crate) struct WrapArgs {
    /// The client: claude, codex, opencode, qwen, aider, pi, continue, cline, mini; openai and anthropic for programs
    /// that are built with their makers' libraries
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
    /// Where the gateway is [default: the server that runs here, else where it would]
    #[arg(long, value_name = "URL")]
    pub(crate) at: Option<String>,
    /// Write it into the client's own files: asks first, and keeps a copy of what was there
    #[arg(long, conflicts_with_all = ["undo", "run"])]
    pub(crate) write: bool,
    /// Put back what was there before --write
    #[arg(long, conflicts_with = "run")]
    pub(crate) undo: bool,
    /// Do not ask
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Start the client, only this once so; what follows `--` is for the client
    #[arg(long)]
    pub(crate) run: bool,
    /// For the client
    #[arg(last = true, requires = "run", value_name = "ARGS")]
    pub(crate) args: Vec<String>,
}

/// `lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Compare policies on recorded sessions; no model is called. The strategy of the agent file acts with the
    /// options of the file, all others with their defaults
    Replay(ReplayArgs),
    /// Measure what views keep: of public data with --receipts, of sessions of your own with FILE; no model is called
    Score(ScoreArgs),
}

/// `lab score`.
#[derive(Debug, Group)]
pub(crate) struct ScoreArgs {
    /// Recorded sessions that `sessions import` reads: what survived, the cost and the waiting of each policy
    #[arg(required_unless_present = "receipts", conflicts_with = "receipts", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The folder with the public data; every public measure is made, which takes minutes
    #[arg(long, value_name = "DIR")]
    pub(crate) receipts: Option<PathBuf>,
    /// For sessions: the window, in tokens or as a share of each session's peak
    #[arg(long, value_name = "TOKENS|N%", default_value = "50%")]
    pub(crate) window: String,
    /// As JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// As one page, into this file; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

/// `lab replay`.
#[derive(Debug, Group)]
pub(crate) struct ReplayArgs {
    /// Files that `sessions import` reads; every session in them
    #[arg(required_unless_present = "synthetic", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The policies [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// The windows: in tokens, or as a share of each session's peak
    #[arg(long, value_name = "TOKENS|N%,…", value_delimiter = ',', default_value = "25%,50%,75%")]
    pub(crate) window: Vec<String>,
    /// The price tables, the leading one first; `all` takes all
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "anthropic-sonnet")]
    pub(crate) prices: Vec<String>,
    /// Leave out sessions whose peak is smaller
    #[arg(long, value_name = "TOKENS", default_value_t = 8_000)]
    pub(crate) min_tokens: u64,
    /// Also long sessions made by a program, labelled so
    #[arg(long)]
    pub(crate) synthetic: bool,
    /// As JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
    /// As one page, into this file; `-` is standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) html: Option<PathBuf>,
}

/// An address as others ask for it.
fn host_and_port(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    // The address is tried as a part of a URL, because other nodes put it into one.
    match reqwest::Url::parse(&format!("http://{text}")) {
        Ok(url) if port.is_some_and(|port| port > 0) && url.path() == "/" && url.username().is_empty() => {
            Ok(text.to_owned())
        }
        _ => Err("a name or an address, and a port, for example 10.0.0.1:4400".to_owned()),
    }
}

/// `serve`.
#[derive(Debug, Default, PartialEq, Eq, Group)]
pub(crate) struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:4400, or what the agent file says]; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) addr: Option<SocketAddr>,
    /// The file with the token that clients must bring [default: `token` in the data folder, made if missing]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Keep the sessions in this PostgreSQL, which any number of nodes may share [default: in the data folder]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// With --db: where other nodes reach this one [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", requires = "db", value_parser = host_and_port)]
    pub(crate) advertise: Option<String>,
    /// With --db: images and long outputs in a folder or bucket that all nodes share, s3://BUCKET/PREFIX or a path
    #[arg(long, value_name = "URL", requires = "db")]
    pub(crate) blobs: Option<String>,
    /// Let tools run without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Open the page in the browser, as `longhaul` without a command does
    #[arg(long)]
    pub(crate) open: bool,
}

/// `acp`.
#[derive(Debug, Default, Group)]
pub(crate) struct AcpArgs {
    /// Let tools run without asking in the editor
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `chat`.
#[derive(Debug, Group)]
pub(crate) struct ChatArgs {
    /// Continue the last session
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) last: bool,
    /// Continue this session: its id, the start of it, or `last`
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Let tools run without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// At a terminal: a line at a time, nothing redrawn but the line that is typed
    #[arg(long)]
    pub(crate) plain: bool,
}

/// `run`.
#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// The task; what is piped in stands behind it. `-` or nothing reads the task from standard input
    pub(crate) prompt: Option<String>,
    /// Print every event, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Continue this session: its id, the start of it, or `last`
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Let tools run without asking; otherwise those that would ask are denied
    #[arg(long)]
    pub(crate) yes: bool,
}

/// `demo`.
#[derive(Debug, Group)]
pub(crate) struct DemoArgs {
    /// The folder whose files are read [default: here; where there is too little to read, files of its own]
    pub(crate) folder: Option<PathBuf>,
    /// The model's context window in tokens
    #[arg(long, value_name = "TOKENS")]
    pub(crate) window: Option<u64>,
    /// Without pauses
    #[arg(long)]
    pub(crate) fast: bool,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// The sessions, the newest first
    List {
        /// One JSON array
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(short = 'n', long, default_value_t = 50, value_name = "COUNT", value_parser = at_least_one())]
        limit: usize,
    },
    /// A session's conversation, everything that was said
    Show {
        /// Its id, the start of it, or `last`
        session: String,
    },
    /// A session as a file that `import` reads (.jsonl), or for people (.md)
    Export {
        /// Its id, the start of it, or `last`
        session: String,
        /// The file; `-` or nothing is standard output. An existing file is not overwritten.
        file: Option<PathBuf>,
        /// As Markdown, whatever the file is called
        #[arg(long)]
        markdown: bool,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Conversations recorded elsewhere: own exports, sessions of pi and Claude Code, Chat Completions
    /// messages and request logs, SWE-agent trajectories, Inspect logs, TapeAgents tapes, tau-bench runs
    Import {
        /// The files; `-` is standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// A new session that shares the log up to a position
    Fork {
        /// Its id, the start of it, or `last`
        session: String,
        /// The last position that is shared [default: the newest]
        seq: Option<u64>,
        /// The same
        #[arg(long, value_name = "SEQ", conflicts_with = "seq")]
        at: Option<u64>,
    },
    /// Delete a session for good
    Delete {
        /// Ids, starts of them, or `last`
        #[arg(required = true)]
        sessions: Vec<String>,
        /// Do not ask
        #[arg(short = 'y', long)]
        yes: bool,
    },
}

/// `context`.
#[derive(Debug, Group)]
pub(crate) struct ContextArgs {
    /// Its id, the start of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `compact`.
#[derive(Debug, Group)]
pub(crate) struct CompactArgs {
    /// Its id, the start of it, or `last`
    pub(crate) session: String,
    /// Say what would happen; change nothing, call nobody
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// By this strategy, only now [default: the configured one]; another than that acts with its default options
    #[arg(long, value_name = "NAME", value_parser = strategies())]
    pub(crate) strategy: Option<String>,
    /// What the summary should mind
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
}

/// `compactions`.
#[derive(Debug, Group)]
pub(crate) struct CompactionsArgs {
    /// Its id, the start of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
}

/// `orders`.
#[derive(Debug, Group)]
pub(crate) struct OrdersArgs {
    /// Its id, the start of it, or `last`
    #[arg(default_value = "last")]
    pub(crate) session: String,
    /// List those that do not hold any more too
    #[arg(long)]
    pub(crate) all: bool,
}

/// `undo`.
#[derive(Debug, Group)]
pub(crate) struct UndoArgs {
    /// Its id, the start of it, or `last`
    pub(crate) session: String,
    /// The compaction, for example e42 [default: the newest that is active]
    pub(crate) edit: Option<String>,
}

/// `recall`.
#[derive(Debug, Group)]
pub(crate) struct RecallArgs {
    /// Its id, the start of it, or `last`
    pub(crate) session: String,
    /// Words to search for, or handles (lh:12, lh:12-40) whose exact originals are printed
    #[arg(required = true, value_name = "QUERY|HANDLES")]
    pub(crate) query: Vec<String>,
    /// At most so many hits of a search
    #[arg(short = 'n', long, default_value_t = 5, value_name = "COUNT", value_parser = at_least_one())]
    pub(crate) limit: usize,
}

/// `tokens`.
#[derive(Debug, Group)]
pub(crate) struct TokensArgs {
    /// The file; `-` is standard input
    pub(crate) file: PathBuf,
}

/// `models`.
#[derive(Debug, Group)]
pub(crate) struct ModelsArgs {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}
