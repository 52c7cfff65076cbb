//! Real clients against a served world: `kubectl`, `curl` and `ipmitool`, by the very commands that it prints.
//!
//! A client that is not installed is reported as ignored; `.ci/run` installs them.

#![expect(clippy::disallowed_methods, reason = "real clients need real time")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Failed, Trial};

/// How long a change may take to show. It is waited for, so that only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let world = Arc::new(OnceLock::new());
    let trial = |name: &'static str, client: &str, test: fn(&World) -> Result<(), Failed>| {
        let world = Arc::clone(&world);
        Trial::test(name, move || test(world.get_or_init(World::serve)))
            .with_ignored_flag(!is_installed(client))
    };
    let trials = vec![
        trial("kubectl_gets_the_hosts", "kubectl", kubectl_gets_the_hosts),
        trial("kubectl_applies_edits_and_deletes", "kubectl", kubectl_applies_edits_and_deletes),
        trial("kubectl_edits_a_host_and_the_machine_follows", "kubectl", a_machine_follows),
        trial("curl_drives_a_redfish_bmc", "curl", curl_drives_a_redfish_bmc),
        trial("curl_lists_ironics_nodes", "curl", curl_lists_ironics_nodes),
        trial("ipmitool_drives_an_ipmi_bmc", "ipmitool", ipmitool_drives_an_ipmi_bmc),
    ];
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    let code = conclusion.exit_code();
    if let Some(Some(world)) = Arc::into_inner(world).map(OnceLock::into_inner)
        && let Err(Failed { .. }) = world.stop()
    {
        eprintln!("the served world did not end on Ctrl-C with code 130 and its findings");
        return ExitCode::FAILURE;
    }
    code
}

/// A world that is being served.
struct World {
    program: Child,
    /// The commands that it printed.
    commands: Vec<String>,
    folder: PathBuf,
}

impl World {
    fn serve() -> Self {
        let folder = std::env::temp_dir().join(format!("bmsim-clients-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/served.toml");
        let mut program = Command::new(env!("CARGO_BIN_EXE_bmsim"))
            .arg("serve")
            .arg(scenario)
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("start bmsim");
        let output = program.stdout.take().expect("its output");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        // The image server's door is announced last.
        let mut commands = Vec::new();
        for line in &mut lines {
            let last = line.ends_with("# images");
            commands.push(line);
            if last {
                break;
            }
        }
        // What it prints at its end must be read, or it could not print it.
        thread::spawn(move || lines.for_each(drop));
        Self { program, commands, folder }
    }

    /// Runs the first printed command that begins so, with `tail` in place of its own end after `until`.
    fn printed(&self, start: &str) -> Result<&str, Failed> {
        let found = self.commands.iter().find(|command| command.starts_with(start));
        found.map(String::as_str).ok_or_else(|| format!("no {start} among {:?}", self.commands).into())
    }

    fn kubectl(&self, arguments: &str) -> Result<String, Failed> {
        let command = self.printed("kubectl")?.replace("get bmh", arguments);
        shell(&command)
    }

    fn ipmitool(&self, arguments: &str) -> Result<String, Failed> {
        shell(&self.printed("ipmitool")?.replace("power status", arguments))
    }

    fn curl(&self, options: &str, path: &str) -> Result<String, Failed> {
        let command = self.printed("curl -s -u")?;
        let (command, _) = command.split_once("  #").unwrap_or((command, ""));
        shell(&format!("{command}{path} {options}"))
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) -> Result<(), Failed> {
        shell(&format!("kill -INT {}", self.program.id()))?;
        let status = self.program.wait()?;
        // Cleaning up is no part of the test.
        let _ = fs::remove_dir_all(&self.folder);
        if status.code() == Some(130) { Ok(()) } else { Err(format!("{status}").into()) }
    }
}

fn is_installed(client: &str) -> bool {
    shell(&format!("command -v {client}")).is_ok()
}

/// Runs a command as somebody who pasted it.
fn shell(command: &str) -> Result<String, Failed> {
    let output = Command::new("sh").arg("-c").arg(command).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("`{command}`: {}\n{text}{error}", output.status).into())
}

fn contains(text: &str, wanted: &str) -> Result<(), Failed> {
    if text.contains(wanted) { Ok(()) } else { Err(format!("no `{wanted}` in:\n{text}").into()) }
}

/// Asks again until the answer contains something.
fn until(wanted: &str, mut ask: impl FnMut() -> Result<String, Failed>) -> Result<(), Failed> {
    let began = Instant::now();
    loop {
        let seen = ask().and_then(|text| contains(&text, wanted));
        if seen.is_ok() || began.elapsed() > PATIENCE {
            return seen;
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn kubectl_gets_the_hosts(world: &World) -> Result<(), Failed> {
    let table = world.kubectl("get bmh")?;
    let columns: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    if columns != ["NAME", "STATE", "CONSUMER", "ONLINE", "ERROR", "AGE"] {
        return Err(format!("{columns:?}").into());
    }
    let row = |name| table.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    contains(&row("node-0"), "provisioned")?;
    contains(&row("node-0"), "worker-0")?;
    contains(&row("node-1"), "available")?;
    contains(&world.kubectl("get bmh node-0 -o yaml")?, "errorCount: 0")?;
    contains(&world.kubectl("get bmh node-1 -o jsonpath='{.spec.bmc.address}'")?, "ipmi://")?;
    contains(&world.kubectl("describe bmh node-0")?, "InspectionComplete")
}

fn kubectl_applies_edits_and_deletes(world: &World) -> Result<(), Failed> {
    let manifest = world.folder.join("host.yaml");
    let text = "
apiVersion: v1
kind: Secret
metadata: { name: spare-secret }
stringData: { username: admin, password: secret }
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata: { name: spare }
spec:
  online: false
  bootMACAddress: 52:54:00:aa:bb:cc
";
    fs::write(&manifest, text)?;
    let manifest = manifest.display();
    contains(&world.kubectl(&format!("apply -f {manifest}"))?, "spare created")?;
    contains(&world.kubectl(&format!("apply -f {manifest}"))?, "unchanged")?;
    contains(&world.kubectl("get secret spare-secret -o jsonpath='{.data.password}'")?, "c2VjcmV0")?;
    until("unmanaged", || world.kubectl("get bmh spare"))?;
    let edit = "edit bmh spare";
    let editor = "sed -i 's/online: false/online: true/'";
    let command = world.printed("kubectl")?.replace("get bmh", edit);
    shell(&format!("EDITOR=\"{editor}\" {command}"))?;
    contains(&world.kubectl("get bmh spare -o jsonpath='{.spec.online}'")?, "true")?;
    if world.kubectl("patch bmh spare --type merge -p '{\"spec\":{\"bootMode\":\"BIOS\"}}'").is_ok() {
        return Err("an unknown bootMode was taken".into());
    }
    world.kubectl("delete bmh spare --timeout 60s")?;
    match world.kubectl("get bmh spare") {
        Ok(table) => Err(format!("it is still there:\n{table}").into()),
        Err(_) => Ok(()),
    }
}

fn a_machine_follows(world: &World) -> Result<(), Failed> {
    world.kubectl("annotate bmh node-1 reboot.metal3.io/test='{\"mode\":\"hard\",\"force\":true}'")?;
    until("is off", || world.ipmitool("power status"))?;
    until("false", || world.kubectl("get bmh node-1 -o jsonpath='{.status.poweredOn}'"))?;
    world.kubectl("annotate bmh node-1 reboot.metal3.io/test-")?;
    until("is on", || world.ipmitool("power status"))
}

fn curl_drives_a_redfish_bmc(world: &World) -> Result<(), Failed> {
    contains(&world.curl("", "")?, "\"PowerState\":\"On\"")?;
    let anonymous =
        world.printed("curl -s -u")?.replace("-u 'admin:redfish-secret'", "-o /dev/null -w '%{http_code}'");
    contains(&shell(anonymous.split("  #").next().unwrap_or_default())?, "401")?;
    let post = |kind: &str| {
        let body = format!(
            "-H 'Content-Type: application/json' -d '{{\"ResetType\":\"{kind}\"}}' -w '%{{http_code}}'"
        );
        world.curl(&body, "/Actions/ComputerSystem.Reset")
    };
    contains(&post("ForceOff")?, "204")?;
    until("\"PowerState\":\"Off\"", || world.curl("", ""))?;
    contains(&post("On")?, "204")?;
    until("\"PowerState\":\"On\"", || world.curl("", ""))?;
    contains(&post("Sideways")?, "400")
}

fn curl_lists_ironics_nodes(world: &World) -> Result<(), Failed> {
    contains(&shell(world.printed("curl -s http")?)?, "\"provision_state\":\"active\"")
}

fn ipmitool_drives_an_ipmi_bmc(world: &World) -> Result<(), Failed> {
    contains(&world.ipmitool("mc info")?, "IPMI Version              : 2.0")?;
    contains(&world.ipmitool("chassis bootdev pxe options=efiboot")?, "Set Boot Device to pxe")?;
    contains(&world.ipmitool("chassis bootparam get 5")?, "Force PXE")?;
    let wrong = world.printed("ipmitool")?.replace("-P 'secret'", "-P 'wrong'");
    match shell(&wrong) {
        Ok(text) => Err(format!("a wrong password was taken:\n{text}").into()),
        Err(_) => Ok(()),
    }
}
