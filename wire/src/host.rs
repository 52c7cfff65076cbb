//! The handle by which code reaches the world.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    BoxFuture,
    chance::{Dice, Seed},
    journal::Entry,
    stream::{Listener, Stream, UdpSocket},
};

/// A moment of the world's one monotonic clock: the time since the world began.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Instant(pub Duration);

impl Instant {
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl std::ops::Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}

/// When a world began: on tokio's clock, and on the calendar. Both kinds of world run on tokio's clock; a simulated
/// one has it paused and moved by the engine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: tokio::time::Instant,
    date: jiff::Timestamp,
}

impl Clock {
    /// A clock that reads zero now, and `date` on the calendar. Must be called within a tokio runtime.
    pub fn starting(date: jiff::Timestamp) -> Self {
        Self { began: tokio::time::Instant::now(), date }
    }

    /// The time since the world began.
    pub fn now(&self) -> Instant {
        Instant(tokio::time::Instant::now() - self.began)
    }

    /// The calendar time.
    pub fn date(&self) -> jiff::Timestamp {
        self.date + self.now().0
    }

    /// The tokio instant that `moment` is.
    pub fn at(&self, moment: Instant) -> tokio::time::Instant {
        self.began + moment.0
    }
}

/// What a kind of world must offer for one host. Use it through [`Host`].
pub trait Backend: Send + Sync + 'static {
    /// The host's name, which is also its DNS name.
    fn name(&self) -> &str;
    /// The host's own address, as others reach it.
    fn address(&self) -> IpAddr;
    /// The world's clock.
    fn clock(&self) -> Clock;
    /// The world's seed.
    fn seed(&self) -> Seed;
    /// Listens on a TCP port; 0 lets the backend choose.
    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>>;
    /// Opens a TCP connection to a name or address. Waits as long as the network does.
    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Stream>>;
    /// Binds a UDP port; 0 lets the backend choose.
    fn udp(&self, port: u16) -> BoxFuture<'static, io::Result<UdpSocket>>;
    /// Looks a name up.
    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<SocketAddr>>;
    /// Runs a task that lives as long as the host.
    fn spawn(&self, task: BoxFuture<'static, ()>) -> tokio::task::AbortHandle;
    /// A fresh ordinal for things of one kind on this host, so that ids differ and repeat with the seed.
    fn ordinal(&self, purpose: &str) -> u64;
    /// Keeps an entry of the journal.
    fn note(&self, entry: Entry);
}

/// A host of a world. Cheap to clone; all clones are the same host.
#[derive(Clone)]
pub struct Host(Arc<dyn Backend>);

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.name()).finish()
    }
}

impl Host {
    /// A host on a backend.
    pub fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }

    /// The host's name, which is also its DNS name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The host's own address, as others reach it.
    pub fn address(&self) -> IpAddr {
        self.0.address()
    }

    /// The time since the world began.
    pub fn now(&self) -> Instant {
        self.0.clock().now()
    }

    /// The calendar time.
    pub fn date(&self) -> jiff::Timestamp {
        self.0.clock().date()
    }

    /// The world's clock.
    pub fn clock(&self) -> Clock {
        self.0.clock()
    }

    /// Waits. The grain of the clock is a millisecond; shorter waits are rounded up.
    pub async fn sleep(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }

    /// Waits until a moment; returns at once when it has passed.
    pub async fn sleep_until(&self, moment: Instant) {
        tokio::time::sleep_until(self.0.clock().at(moment)).await;
    }

    /// Listens on a TCP port.
    pub async fn listen(&self, port: u16) -> io::Result<Listener> {
        self.0.listen(port).await
    }

    /// Opens a TCP connection. Waits as long as the network does: about 127 s on Linux when nobody answers.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<Stream> {
        self.0.connect(host.to_owned(), port).await
    }

    /// Binds a UDP port; 0 lets the system choose one.
    pub async fn udp(&self, port: u16) -> io::Result<UdpSocket> {
        self.0.udp(port).await
    }

    /// Looks a name up.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        self.0.resolve(host.to_owned(), port).await
    }

    /// Runs a task that lives as long as the host: a crash of the host drops it. Dropping the returned [`Task`] lets
    /// the task go on.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let (sender, receiver) = oneshot::channel();
        let abort = self.0.spawn(Box::pin(async move {
            let value = task.await;
            // Nobody may be waiting for it.
            let _ = sender.send(value);
        }));
        Task { abort, receiver }
    }

    /// A stream of chance for one purpose. Each call with the same purpose gives the same stream from its start.
    pub fn dice(&self, purpose: &str) -> Dice {
        self.0.seed().stream(self.name(), purpose)
    }

    /// A new random (version 4) id for a thing of one kind. It differs at each call and repeats with the seed.
    pub fn uuid(&self, purpose: &str) -> Uuid {
        use rand::Rng as _;
        let ordinal = self.0.ordinal(purpose);
        let mut bytes = [0; 16];
        self.0.seed().stream(self.name(), &format!("uuid/{purpose}/{ordinal}")).fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// Another handle to the same host, whose tasks can all be ended at once while the host goes on: what runs on a
    /// machine until it loses power, and what that starts in turn (a server's connections, a client's pool).
    pub fn scoped(&self) -> (Self, Scope) {
        let tasks = Arc::new(Mutex::new(Some(Vec::new())));
        (Self::new(Scoped { host: Arc::clone(&self.0), tasks: Arc::clone(&tasks) }), Scope(tasks))
    }

    /// Notes a fact in the journal. The data must hold no credentials.
    pub fn note(&self, topic: &str, subject: &str, data: Value) {
        self.0.note(Entry {
            host: self.name().to_owned(),
            topic: topic.to_owned(),
            subject: subject.to_owned(),
            data,
        });
    }
}

/// The running tasks of a scope; `None` once it has ended.
type Tasks = Arc<Mutex<Option<Vec<tokio::task::AbortHandle>>>>;

/// Ends the tasks that were spawned through the handle of [`Host::scoped`]. Dropping it lets them go on.
#[derive(Debug)]
pub struct Scope(Tasks);

impl Scope {
    /// Drops the tasks at their next waiting point; what is spawned through the handle later never runs.
    pub fn end(&self) {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        for task in tasks.into_iter().flatten() {
            task.abort();
        }
    }
}

/// A host seen through one of its scopes.
struct Scoped {
    host: Arc<dyn Backend>,
    tasks: Tasks,
}

impl Backend for Scoped {
    fn name(&self) -> &str {
        self.host.name()
    }

    fn address(&self) -> IpAddr {
        self.host.address()
    }

    fn clock(&self) -> Clock {
        self.host.clock()
    }

    fn seed(&self) -> Seed {
        self.host.seed()
    }

    fn listen(&self, port: u16) -> BoxFuture<'static, io::Result<Listener>> {
        self.host.listen(port)
    }

    fn connect(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Stream>> {
        self.host.connect(host, port)
    }

    fn udp(&self, port: u16) -> BoxFuture<'static, io::Result<UdpSocket>> {
        self.host.udp(port)
    }

    fn resolve(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<SocketAddr>> {
        self.host.resolve(host, port)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> tokio::task::AbortHandle {
        let task = self.host.spawn(task);
        match &mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(tasks) => {
                tasks.retain(|running| !running.is_finished());
                tasks.push(task.clone());
            }
            None => task.abort(),
        }
        task
    }

    fn ordinal(&self, purpose: &str) -> u64 {
        self.host.ordinal(purpose)
    }

    fn note(&self, entry: Entry) {
        self.host.note(entry);
    }
}

/// A spawned task. Awaiting it gives its value, or `None` if it was aborted or its host crashed.
#[derive(Debug)]
pub struct Task<T> {
    abort: tokio::task::AbortHandle,
    receiver: oneshot::Receiver<T>,
}

impl<T> Task<T> {
    /// Drops the task at its next waiting point.
    pub fn abort(&self) {
        self.abort.abort();
    }

    /// A handle that can abort the task after this one has been moved or dropped.
    pub fn abort_handle(&self) -> tokio::task::AbortHandle {
        self.abort.clone()
    }
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.receiver).poll(cx).map(Result::ok)
    }
}

/// Runs `work` for at most `limit`; `None` when the time ran out.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, work).await.ok()
}
