//! One reconcile of one host: **observe, decide, act**.

use crate::{
    act::{ActError, Acted, act},
    cluster::Key,
    controller::Next,
    decide::{LookAgain, Undecided, decide},
    observe::{LookupError, Outside},
};

/// How many passes one reconcile may take before it goes back to the queue. None needs more than a few; this bounds
/// what would otherwise be an endless loop, were Ironic never to take what it is told.
const PASSES: usize = 8;

/// Why a reconcile failed. Nothing of its last pass was saved.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Something could not be looked up.
    #[error("observe the host")]
    Observe(#[from] LookupError),
    /// What was seen fits none of the things that can be done.
    #[error("{0}")]
    Decide(String),
    /// Something could not be done.
    #[error("act on the host")]
    Act(#[from] ActError),
}

/// Looks at a host and does what is to be done next.
pub async fn reconcile(outside: &Outside, key: &Key) -> Result<Next, ReconcileError> {
    let Some(mut host) = outside.get_host(key) else { return Ok(Next::Done) };
    let mut session = None;
    let mut ironic = None;
    for _ in 0..PASSES {
        let mut seen = outside.look_at(key, host);
        seen.facts.ironic = ironic;
        let decision = loop {
            match decide(&seen) {
                Ok(decision) => break decision,
                Err(Undecided::Needs(question)) => {
                    outside.learn(&key.namespace, &mut seen.facts, &mut session, question).await?;
                }
                Err(Undecided::Fails(why)) => return Err(ReconcileError::Decide(why)),
            }
        };
        tracing::debug!(host = %key, state = %seen.host.status.as_ref().map_or_else(Default::default, |s| s.provisioning.state),
            effects = decision.effects.len(), look_again = ?decision.look_again, "decided");
        let Acted { host: after, look_again } = act(outside, &seen, session.as_ref(), decision).await?;
        match look_again {
            LookAgain::Never => return Ok(Next::Done),
            LookAgain::Now => return Ok(Next::Again),
            LookAgain::After(wait) => return Ok(Next::After(wait)),
            LookAgain::Continue => {}
        }
        host = after;
        ironic = seen.facts.ironic;
    }
    Ok(Next::Again)
}
