//! Which host a task belongs to, at each moment that it runs or is dropped.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::Notify;
use turmoil_net::HostId;

use crate::network::Shared;

thread_local! {
    /// The host whose code runs now.
    static CURRENT: Cell<Option<Place>> = const { Cell::new(None) };
    /// Whether any host's code ran since the loop last looked.
    static DIRTY: Cell<bool> = const { Cell::new(true) };
    /// Wakes the loop.
    static WAKE: RefCell<Option<Rc<Notify>>> = const { RefCell::new(None) };
    /// Where the latest panic on this thread happened.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A host's present life: which host, which kernel, which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) kernel: HostId,
    pub(crate) generation: u32,
}

/// The host whose code runs now.
pub(crate) fn current() -> Option<Place> {
    CURRENT.get()
}

pub(crate) fn mark_dirty() {
    DIRTY.set(true);
}

/// Prepares this thread for a world; the notify wakes its loop.
pub(crate) fn install(wake: Rc<Notify>) {
    DIRTY.set(true);
    WAKE.set(Some(wake));
}

/// Called by tokio when it has nothing to run at this instant.
pub(crate) fn on_idle() {
    if DIRTY.replace(false) {
        WAKE.with_borrow(|wake| {
            if let Some(wake) = wake {
                wake.notify_one();
            }
        });
    }
}

/// Runs `work` as `place`, and afterwards is whoever we were before.
pub(crate) fn on<T>(place: Place, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Place>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
            if let Some(place) = self.0 {
                turmoil_net::set_current(place.kernel);
            }
        }
    }
    let _restore = Restore(CURRENT.replace(Some(place)));
    turmoil_net::set_current(place.kernel);
    mark_dirty();
    work()
}

/// Keeps the message of a panic of this thread, for the world to report. Returns false if no world runs here.
pub(crate) fn keep_panic(message: String) -> bool {
    let in_world = WAKE.with_borrow(Option::is_some);
    if in_world {
        PANIC.set(Some(message));
    }
    in_world
}

/// What the latest panic said.
pub(crate) fn take_panic(payload: &(dyn Any + Send)) -> String {
    PANIC.take().unwrap_or_else(|| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
    })
}

/// A task of a host: polled and dropped as that host, and never polled again once the host has crashed.
pub(crate) struct Scoped<F> {
    shared: Arc<Shared>,
    place: Place,
    inner: Option<Pin<Box<F>>>,
}

impl<F> Scoped<F> {
    pub(crate) fn new(shared: Arc<Shared>, place: Place, inner: F) -> Self {
        Self { shared, place, inner: Some(Box::pin(inner)) }
    }

    fn release(&mut self) {
        let inner = self.inner.take();
        if inner.is_some() {
            let dropped = on(self.place, || catch_unwind(AssertUnwindSafe(move || drop(inner))));
            if let Err(payload) = dropped {
                self.shared.fail_by_panic(self.place.host, take_panic(&*payload));
            }
        }
    }
}

impl<F: Future<Output = ()>> Future for Scoped<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let place = self.place;
        if !self.shared.begin_poll(place) {
            self.release();
            return Poll::Ready(());
        }
        let Some(inner) = self.inner.as_mut() else { return Poll::Ready(()) };
        match on(place, || catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(cx)))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => {
                self.release();
                Poll::Ready(())
            }
            Err(payload) => {
                self.shared.fail_by_panic(place.host, take_panic(&*payload));
                self.release();
                Poll::Ready(())
            }
        }
    }
}

impl<F> Drop for Scoped<F> {
    fn drop(&mut self) {
        self.release();
    }
}
