//! A way to the server that a test can cut, and that loses answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// Passes on what comes to its port.
pub(crate) struct Proxy {
    port: u16,
    way: Arc<Way>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Way {
    /// Nothing passes, and nobody is told.
    cut: watch::Sender<bool>,
    /// What is asked passes; what is answered does not.
    answers_held: watch::Sender<bool>,
    /// New connections, and old ones, are refused.
    refused: AtomicBool,
    generation: watch::Sender<u64>,
    /// Connections up to this one are dead without anybody being told: their number, and how many there were.
    dead: AtomicU64,
    count: AtomicU64,
    /// After how many answers one is lost, and its connection dies: 0 for never.
    lose_in: AtomicUsize,
    lost: AtomicU64,
}

impl Proxy {
    /// A way to the server at `target` on this machine.
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::<Way>::default();
        let passing = Arc::clone(&way);
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // The system has accepted the connection already. To the client it looks like a server that
                // closes at once.
                if passing.refused.load(Ordering::Relaxed) {
                    continue;
                }
                let way = Arc::clone(&passing);
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await {
                        pass_on(way, client, server).await;
                    }
                });
            }
        });
        Self { port, way, accepting: accepting.abort_handle() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing passes, and nobody is told; or it does again.
    pub(crate) fn cut(&self, cut: bool) {
        self.way.cut.send_replace(cut);
    }

    /// From now on what is asked passes, and no answer does; or they do again.
    pub(crate) fn hold_answers(&self, hold: bool) {
        self.way.answers_held.send_replace(hold);
    }

    /// Of the connections that are there nothing comes any more, and nobody is told; new ones work.
    pub(crate) fn forget(&self) {
        self.way.dead.store(self.way.count.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Listens no more, for good: who comes is refused by the system.
    pub(crate) fn close(&self) {
        self.accepting.abort();
        self.way.generation.send_modify(|generation| *generation += 1);
    }

    /// Ends all connections, and refuses new ones; or takes them again.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.way.refused.store(refuse, Ordering::Relaxed);
        self.way.generation.send_modify(|generation| *generation += 1);
    }

    /// The answer after `passing` others will be lost.
    pub(crate) fn lose_answer_after(&self, passing: usize) {
        self.way.lose_in.store(passing + 1, Ordering::Relaxed);
    }

    /// No answer will be lost.
    pub(crate) fn lose_nothing(&self) {
        self.way.lose_in.store(0, Ordering::Relaxed);
    }

    /// How many answers were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.way.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Way {
    fn loses(&self) -> bool {
        let before =
            // At 0 the subtraction fails and nothing is counted.
            self.lose_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let loses = before == Ok(1);
        self.lost.fetch_add(u64::from(loses), Ordering::Relaxed);
        loses
    }
}

async fn pass_on(way: Arc<Way>, client: TcpStream, server: TcpStream) {
    let number = 1 + way.count.fetch_add(1, Ordering::Relaxed);
    let mut generation = way.generation.subscribe();
    generation.borrow_and_update();
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(&way, number, (from_client, to_server), false) => {}
        () = copy(&way, number, (from_server, to_client), true) => {}
        _ = generation.changed() => {}
    }
}

async fn copy(way: &Way, number: u64, (mut from, mut to): (OwnedReadHalf, OwnedWriteHalf), answers: bool) {
    let mut bytes = vec![0; 64 * 1024];
    let (mut cut, mut held) = (way.cut.subscribe(), way.answers_held.subscribe());
    loop {
        // Bytes are read before the wait: during a cut they are held here and arrive late, as packets do in a
        // network.
        let Ok(count) = from.read(&mut bytes).await else { return };
        if answers && held.wait_for(|held| !held).await.is_err() {
            return;
        }
        if cut.wait_for(|cut| !cut).await.is_err() || count == 0 || answers && way.loses() {
            return;
        }
        // Neither end is closed, so neither gets a sign: a router that forgot a connection behaves so.
        if number <= way.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
