//! Checks the timeline.

use std::time::Duration;

use toml::Spanned;

use super::{Checker, faults};
use crate::scenario::{
    condition::{Condition, ErrorWanted},
    history,
    mistake::Mistake,
    pattern::Pattern,
    plan::{Initial, Password},
    raw,
    step::{Action, Edit, Pod, Restart, Step, Trigger},
    time::{Range, Span},
};

/// How long a pod takes to be scheduled again and to start, if the scenario does not say.
const POD_START: Duration = Duration::from_secs(30);

/// Ironic's provision states in which a node can be seen.
const NODE_STATES: &[&str] = &[
    "enroll",
    "verifying",
    "manageable",
    "inspecting",
    "inspect wait",
    "inspect failed",
    "available",
    "adopting",
    "adopt failed",
    "active",
    "deploying",
    "wait call-back",
    "deploy failed",
    "deleting",
    "cleaning",
    "clean wait",
    "clean failed",
    "error",
];

/// Checks one step.
pub(super) fn step(checker: &Checker<'_>, written: &Spanned<raw::Step>) -> Result<Step<Range>, Mistake> {
    let (trigger, action) = (trigger(checker, written)?, action(checker, written)?);
    comes_back(checker, written, &trigger, &action)?;
    Ok(Step { trigger, action, line: checker.file.line(written) })
}

/// A pod that does not come back within the run was not restarted but lost.
fn comes_back(
    checker: &Checker<'_>,
    written: &Spanned<raw::Step>,
    trigger: &Trigger<Range>,
    action: &Action<Range>,
) -> Result<(), Mistake> {
    let Action::Restart(restart) = action else { return Ok(()) };
    let (Trigger::At(begins) | Trigger::When { after: begins, .. }) = trigger;
    let back = begins.most.saturating_add(restart.down_for.most);
    if back <= checker.duration {
        return Ok(());
    }
    let raw = written.get_ref();
    let place = raw.restart.as_ref().and_then(|restart| restart.down_for.as_ref());
    let place =
        place.or(raw.at.as_ref()).or(raw.after.as_ref()).map_or_else(|| written.span(), Spanned::span);
    Err(checker.file.at_bytes(place, "the pod is not back before the end of the run").help(format!(
        "it is back after {} at the latest, and the run's `duration` is {}",
        Span(back),
        Span(checker.duration)
    )))
}

fn trigger(checker: &Checker<'_>, written: &Spanned<raw::Step>) -> Result<Trigger<Range>, Mistake> {
    let raw = written.get_ref();
    match (&raw.at, &raw.when, &raw.after) {
        (Some(at), None, None) => Ok(Trigger::At(checker.moments(at)?)),
        (None, Some(when), after) => Ok(Trigger::When {
            condition: condition(checker, when)?,
            after: after
                .as_ref()
                .map_or(Ok(Range::exactly(Duration::ZERO)), |after| checker.moments(after))?,
        }),
        (Some(_), Some(when), _) => Err(checker
            .file
            .at(when, "a step has either `at` or `when`, this has both")
            .help("to wait after a condition, use `when` with `after`")),
        (Some(_), None, Some(after)) => {
            Err(checker.file.at(after, "`after` waits after a `when`, which this step has not"))
        }
        (None, None, _) => Err(checker
            .file
            .at(written, "this step does not say when it happens")
            .help("give it `at = \"10s\"`, or `when = { host = \"…\", state = \"…\" }`")),
    }
}

fn action(checker: &Checker<'_>, written: &Spanned<raw::Step>) -> Result<Action<Range>, Mistake> {
    let raw = written.get_ref();
    let mut actions = Vec::new();
    if let Some(fault) = &raw.fault {
        actions.push(Action::Fault(faults::fault(checker, fault)?));
    }
    if let Some(restart) = &raw.restart {
        actions.push(self::restart(checker, restart)?);
    }
    if let Some(which) = &raw.create {
        actions.push(create(checker, which)?);
    }
    if let Some(which) = &raw.delete {
        actions.push(Action::Delete { hosts: checker.hosts(&which.host)? });
    }
    if let Some(edit) = &raw.edit {
        actions.push(self::edit(checker, edit)?);
    }
    if let Some(annotate) = &raw.annotate {
        actions.push(self::annotate(checker, annotate)?);
    }
    if let Some(secret) = &raw.secret {
        actions.push(self::secret(checker, secret)?);
    }
    if let Some(bmc) = &raw.bmc {
        let hosts = checker.hosts(&bmc.host)?;
        actions.push(Action::BmcPassword { hosts, password: Password::new(bmc.password.clone()) });
    }
    if let Some(files) = &raw.image_cache {
        actions.push(self::files(checker, files)?);
    }
    match (actions.pop(), actions.is_empty()) {
        (Some(action), true) => Ok(action),
        (Some(_), false) => Err(checker
            .file
            .at(written, "this step does more than one thing")
            .help("make a step of each; those of the same moment happen in the order of the file")),
        (None, _) => Err(checker.file.at(written, "this step does nothing").help(
            "give it one of `fault`, `restart`, `create`, `delete`, `edit`, `annotate`, `secret`, `bmc`, `image_cache`",
        )),
    }
}

fn restart(checker: &Checker<'_>, raw: &raw::Restart) -> Result<Action<Range>, Mistake> {
    let down_for =
        raw.down_for.as_ref().map_or(Ok(Range::exactly(POD_START)), |span| checker.moments(span))?;
    let lose_database = raw.lose_database.as_ref().is_some_and(|lose| *lose.get_ref());
    if let (Pod::Operator, true, Some(written)) = (raw.pod, lose_database, &raw.lose_database) {
        return Err(checker
            .file
            .at(written, "the operator has no database to lose")
            .help("Ironic's is lost with the pod `ironic` or `metal3`"));
    }
    Ok(Action::Restart(Restart { pod: raw.pod, down_for, lose_database }))
}

fn create(checker: &Checker<'_>, which: &raw::Which) -> Result<Action<Range>, Mistake> {
    let hosts = checker.hosts(&which.host)?;
    let there = |name: &&String| checker.plan.host(name).is_some_and(|host| host.initial != Initial::Absent);
    match hosts.iter().find(there) {
        Some(name) => Err(checker
            .file
            .at(&which.host, format!("`{name}` is there from the beginning"))
            .help("a host that is created later has `state = \"absent\"`")),
        None => Ok(Action::Create { hosts }),
    }
}

fn edit(checker: &Checker<'_>, written: &Spanned<raw::Edit>) -> Result<Action<Range>, Mistake> {
    let raw = written.get_ref();
    let image = match &raw.image {
        Some(none) if none.get_ref().is_empty() => Some(None),
        Some(image) => Some(Some(checker.image(image)?)),
        None => None,
    };
    let edit = Edit { online: raw.online, image, externally_provisioned: raw.externally_provisioned };
    if edit == Edit::default() {
        return Err(checker
            .file
            .at(written, "this edit changes nothing")
            .help("give it one of `online`, `image`, `externally_provisioned`"));
    }
    Ok(Action::Edit { hosts: checker.hosts(&raw.host)?, edit })
}

fn annotate(checker: &Checker<'_>, written: &Spanned<raw::Annotate>) -> Result<Action<Range>, Mistake> {
    let raw = written.get_ref();
    let remove = raw.remove.unwrap_or_default();
    if raw.key.get_ref().trim().is_empty() {
        return Err(checker.file.at(&raw.key, "an annotation needs a key"));
    }
    if remove && raw.value.is_some() {
        return Err(checker.file.at(written, "an annotation that is removed has no value"));
    }
    Ok(Action::Annotate {
        hosts: checker.hosts(&raw.host)?,
        key: raw.key.get_ref().clone(),
        value: (!remove).then(|| raw.value.clone().unwrap_or_default()),
    })
}

fn secret(checker: &Checker<'_>, written: &Spanned<raw::Secret>) -> Result<Action<Range>, Mistake> {
    let raw = written.get_ref();
    if raw.username.is_none() && raw.password.is_none() {
        return Err(checker
            .file
            .at(written, "this changes nothing in the Secret")
            .help("give it a `username` or a `password`"));
    }
    Ok(Action::Secret {
        hosts: checker.hosts(&raw.host)?,
        username: raw.username.clone(),
        password: raw.password.clone().map(Password::new),
    })
}

fn files(checker: &Checker<'_>, written: &Spanned<raw::Files>) -> Result<Action<Range>, Mistake> {
    let (raw, file) = (written.get_ref(), &checker.file);
    let known = || checker.plan.image_caches.iter().map(|cache| cache.name.as_str());
    let caches = match &raw.name {
        Some(name) => file.names(name, "image cache", known())?,
        None => known().map(str::to_owned).collect(),
    };
    let (pattern, moved) = match (&raw.move_away, &raw.restore) {
        (Some(files), None) => (files, true),
        (None, Some(files)) => (files, false),
        (Some(_), Some(_)) | (None, None) => {
            return Err(file.at(written, "say either what to `move_away` or what to `restore`"));
        }
    };
    let of_them = |cache: &&crate::scenario::plan::ImageCachePlan| caches.contains(&cache.name);
    let images = checker.plan.image_caches.iter().filter(of_them).flat_map(|cache| &cache.images);
    // Only to see that it stands for something.
    file.names(pattern, "image", images.map(|image| image.name.as_str()))?;
    let files = pattern.get_ref().clone();
    Ok(if moved { Action::MoveAway { caches, files } } else { Action::Restore { caches, files } })
}

/// Checks a condition.
pub(super) fn condition(
    checker: &Checker<'_>,
    written: &Spanned<raw::Condition>,
) -> Result<Condition, Mistake> {
    let (raw, file) = (written.get_ref(), &checker.file);
    let word = |written: &Option<Spanned<String>>,
                check: fn(&str) -> Result<String, history::UnknownWord>| {
        let check = |word: &Spanned<String>| {
            check(word.get_ref())
                .map_err(|error| Mistake::of_word(file.shown, file.text, word.span(), &error))
        };
        written.as_ref().map(check).transpose()
    };
    let error = match &raw.error {
        None => None,
        Some(written) => Some(match written.get_ref().as_str() {
            "none" => ErrorWanted::None,
            "any" => ErrorWanted::Any,
            _ => ErrorWanted::Is(word(&raw.error, history::error)?.unwrap_or_default()),
        }),
    };
    let condition = Condition {
        hosts: checker.hosts(&raw.host)?,
        state: word(&raw.state, history::state)?,
        status: word(&raw.status, history::status)?,
        error,
        message: raw.message.clone().map(Pattern::new),
        error_count: raw.error_count,
        online: raw.online,
        powered_on: raw.powered_on,
        power: raw.power.map(|power| power == raw::Power::On),
        node: raw.node.as_ref().map(|node| node_state(checker, node)).transpose()?,
    };
    if (Condition { hosts: condition.hosts.clone(), ..Condition::default() }) == condition {
        return Err(file
            .at(written, "this asks nothing of the host")
            .help("add a `state`, an `error`, or another of the host's properties"));
    }
    Ok(condition)
}

fn node_state(checker: &Checker<'_>, written: &Spanned<String>) -> Result<String, Mistake> {
    let state = written.get_ref();
    if NODE_STATES.contains(&state.as_str()) {
        return Ok(state.clone());
    }
    Err(checker
        .file
        .at(written, format!("`{state}` is not a provision state of Ironic"))
        .meant(state, NODE_STATES.iter().copied()))
}
