//! The commands that a server answers by itself: those about sessions and their set-up.

use super::{Call, Config, Incoming, Reply, session::Active};
use crate::{
    Completion, Privilege,
    command::{
        self, AuthenticationCapabilities, CloseSession, Command as _, GetAuthenticationCapabilities,
        GetCipherSuites, GetSystemGuid, SetPrivilege,
    },
    message::Message,
};

/// The number of the LAN channel.
const CHANNEL: u8 = 1;

/// What is to be done for a command of a session.
pub(super) struct Done {
    pub(super) reply: Reply,
    /// The session to end after the reply.
    pub(super) close: Option<u32>,
}

/// Answers a command that came outside any session.
pub(super) fn outside(config: &Config, call: &mut Call<'_>, message: &Message) -> Reply {
    let incoming = incoming(call, None, message);
    call.bmc
        .intercept(&incoming)
        .or_else(|| about(config, message))
        .unwrap_or(Reply::refuse(Completion::INSUFFICIENT_PRIVILEGE))
}

/// Answers a command of a session, or lets the machine do it.
pub(super) fn inside(
    config: &Config,
    call: &mut Call<'_>,
    id: u32,
    active: &mut Active,
    message: &Message,
) -> Done {
    let incoming = incoming(call, Some(active), message);
    let stays = |reply| Done { reply, close: None };
    if let Some(reply) = call.bmc.intercept(&incoming) {
        return stays(reply);
    }
    if let Some(reply) = about(config, message) {
        return stays(reply);
    }
    if command::required(message.net_fn, message.command).is_some_and(|needed| active.privilege < needed) {
        return stays(Reply::refuse(Completion::INSUFFICIENT_PRIVILEGE));
    }
    match (message.net_fn, message.command) {
        (SetPrivilege::NET_FN, SetPrivilege::CODE) => stays(set_privilege(active, &message.data)),
        (CloseSession::NET_FN, CloseSession::CODE) => match CloseSession::decode(&message.data) {
            Err(_) => stays(Reply::refuse(Completion::INVALID_LENGTH)),
            Ok(CloseSession { session }) if session == id => Done { reply: Reply::ok([]), close: Some(id) },
            // Ending another's session is for administrators, and not to be had here.
            Ok(CloseSession { .. }) => stays(Reply::refuse(Completion::INVALID_SESSION)),
        },
        _ => stays(call.bmc.respond(&incoming)),
    }
}

/// Answers what anybody may ask, in a session or not.
fn about(config: &Config, message: &Message) -> Option<Reply> {
    Some(match (message.net_fn, message.command) {
        (GetAuthenticationCapabilities::NET_FN, GetAuthenticationCapabilities::CODE) => {
            // BMCs tell about IPMI 2.0 whether or not they are asked to.
            let able =
                AuthenticationCapabilities { channel: CHANNEL, rmcp_plus: true, kg: config.kg.is_some() };
            if message.data.len() == 2 {
                Reply::ok(able.encode())
            } else {
                Reply::refuse(Completion::INVALID_LENGTH)
            }
        }
        (GetCipherSuites::NET_FN, GetCipherSuites::CODE) => match GetCipherSuites::decode(&message.data) {
            Ok(request) => Reply::ok(request.encode_answer(CHANNEL, &config.suites)),
            Err(_) => Reply::refuse(Completion::INVALID_LENGTH),
        },
        (GetSystemGuid::NET_FN, GetSystemGuid::CODE) => Reply::ok(config.guid),
        _ => return None,
    })
}

fn incoming<'a>(call: &Call<'_>, active: Option<&'a Active>, message: &'a Message) -> Incoming<'a> {
    Incoming {
        now: call.now,
        peer: call.peer,
        user: active.map(|active| active.user.as_str()),
        privilege: active.map(|active| active.privilege),
        net_fn: message.net_fn,
        command: message.command,
        data: &message.data,
    }
}

fn set_privilege(active: &mut Active, data: &[u8]) -> Reply {
    let [wanted] = data else { return Reply::refuse(Completion::INVALID_LENGTH) };
    match Privilege::from_number(*wanted) {
        Err(_) => return Reply::refuse(Completion::INVALID_FIELD),
        Ok(None) => {}
        Ok(Some(wanted)) if wanted > active.limit => return Reply::refuse(Completion::EXCEEDS_LIMIT),
        // A session can't be lowered to that (22.18).
        Ok(Some(Privilege::Callback)) => return Reply::refuse(Completion::NOT_AVAILABLE),
        Ok(Some(wanted)) => active.privilege = wanted,
    }
    Reply::ok([active.privilege.number()])
}
