//! Booting: what the machine gets over the network, and what then runs on it.

use std::time::Duration;

use axum::{Router, http::StatusCode as Status, routing::get};
use fake_bmc::{BootSource, Power, RAMDISK_MAGIC};
use serde_json::json;

use crate::world::{Recorder, World, config, installed, world};

/// Serves files, and tells who asked for them.
fn serve_files(world: &World, host: &str, files: &[(&'static str, String)]) {
    let mut app = Router::new();
    for (path, body) in files {
        let body = body.clone();
        app = app.route(path, get(async move || body));
    }
    let host = world.net.host(host);
    drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
}

fn image(parameters: &str) -> String {
    format!("{RAMDISK_MAGIC}\nlinux kernel {parameters}\n")
}

async fn boot_cd(world: &World) {
    let (client, system) = (world.redfish(), world.system());
    let insert = format!("{system}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia");
    client.send("POST", &insert, json!({ "Image": "http://ironic/boot.iso" })).await;
    let once = json!({ "Boot": { "BootSourceOverrideTarget": "Cd", "BootSourceOverrideEnabled": "Once" } });
    client.send("PATCH", &system, once).await;
    client.reset(&system, "On").await;
}

#[test]
fn a_virtual_cd_boots_through_the_bmc_and_installs_a_system() {
    let ramdisk = Recorder::default();
    let started = ramdisk.0.clone();
    world(config(), ramdisk, move |world| async move {
        serve_files(&world, "ironic", &[("/boot.iso", image("do=install ipa-agent-token=secret nofb"))]);
        boot_cd(&world).await;
        world.sleep(29).await;
        assert!(started.lock().unwrap().is_empty(), "no machine is through its self test by then");
        world.sleep(160).await;
        let parameters = started.lock().unwrap()[0].clone();
        assert_eq!(parameters["ipa-agent-token"], "secret");
        assert_eq!(parameters["nofb"], "");
        assert_eq!(world.bmc.disks(), [("/dev/sda".to_owned(), installed())]);
        assert_eq!(
            world.journal("boot"),
            [json!({ "source": "cd", "what": "ramdisk", "url": "http://ironic/boot.iso" })],
            "and no token"
        );
        assert_eq!(
            world.journal("disk"),
            [
                json!({ "event": "written", "disk": "/dev/sda", "digest": "sha256:1", "url": "http://images/os" })
            ]
        );

        // The next boot is from the disk, although the CD is still there.
        world.redfish().reset(&world.system(), "ForceRestart").await;
        world.sleep(120).await;
        assert_eq!(started.lock().unwrap().len(), 1);
        assert_eq!(world.journal("boot")[1]["source"], "hdd");
    });
}

#[test]
fn a_ramdisk_dies_with_the_power_and_takes_its_server_along() {
    let ramdisk = Recorder::default();
    let powered = ramdisk.1.clone();
    world(config(), ramdisk, move |world| async move {
        serve_files(&world, "ironic", &[("/boot.iso", image("x=1"))]);
        boot_cd(&world).await;
        world.sleep(180).await;
        let agent = async || world.client.connect("machine", 9999).await;
        assert!(agent().await.is_ok());
        world.redfish().reset(&world.system(), "ForceOff").await;
        world.sleep(1).await;
        assert!(agent().await.is_err(), "nothing runs there any more");
        assert_eq!(*powered.lock().unwrap(), [false, true, false]);
    });
}

#[test]
fn software_can_switch_its_machine_off() {
    world(config(), Recorder::default(), |world| async move {
        serve_files(&world, "ironic", &[("/boot.iso", image("do=off"))]);
        boot_cd(&world).await;
        world.wait_for(Power::On).await;
        world.wait_for(Power::Off).await;
        assert_eq!(world.journal("power").last().unwrap()["by"], "software");
    });
}

#[test]
fn an_image_that_is_not_there_leaves_the_machine_to_its_disk() {
    let mut config = config();
    config.disk = installed();
    world(config, Recorder::default(), |world| async move {
        serve_files(&world, "ironic", &[]);
        boot_cd(&world).await;
        world.sleep(120).await;
        let boots = world.journal("boot");
        assert_eq!(boots[0]["what"], "failed");
        assert_eq!(boots[0]["reason"], format!("get the file: the server answered {}", Status::NOT_FOUND));
        assert_eq!(boots[1]["what"], "disk");
        assert_eq!(world.bmc.disks()[0].1, installed());
    });
}

#[test]
fn pxe_gets_script_kernel_and_ramdisk_by_the_machines_own_nic() {
    let mut config = config();
    config.boot_server = Some("ironic".to_owned());
    let ramdisk = Recorder::default();
    let started = ramdisk.0.clone();
    world(config, ramdisk, move |world| async move {
        let script = "#!ipxe\nkernel http://ironic/kernel ipa-api-url=http://ironic:6385 initrd=ramdisk\n\
                      initrd --name ramdisk http://ironic/ramdisk\nboot\n";
        serve_files(
            &world,
            "ironic",
            &[
                ("/pxelinux.cfg/52-54-00-00-00-01", script.to_owned()),
                ("/kernel", format!("{RAMDISK_MAGIC}\n")),
                ("/ramdisk", "…".to_owned()),
            ],
        );
        world.redfish().reset(&world.system(), "On").await;
        world.sleep(180).await;
        let urls: Vec<_> = started.lock().unwrap().iter().map(|given| given["ipa-api-url"].clone()).collect();
        assert_eq!(urls, ["http://ironic:6385"]);
        assert_eq!(
            world.journal("boot"),
            [json!({ "source": "pxe", "what": "ramdisk", "url": "http://ironic/kernel" })]
        );
    });
}

#[test]
fn uefi_boots_by_http_itself() {
    let ramdisk = Recorder::default();
    let started = ramdisk.0.clone();
    world(config(), ramdisk, move |world| async move {
        serve_files(&world, "ironic", &[("/boot.efi", image("x=1"))]);
        let boot = json!({ "Boot": {
            "BootSourceOverrideTarget": "UefiHttp",
            "BootSourceOverrideEnabled": "Once",
            "HttpBootUri": "http://ironic/boot.efi",
        } });
        world.redfish().send("PATCH", &world.system(), boot).await;
        assert_eq!(world.bmc.boot().instead.unwrap().source, BootSource::UefiHttp);
        world.redfish().reset(&world.system(), "On").await;
        world.sleep(180).await;
        assert_eq!(started.lock().unwrap().len(), 1);
    });
}

#[test]
fn a_machine_goes_on_without_its_bmc() {
    let ramdisk = Recorder::default();
    let started = ramdisk.0.clone();
    world(config(), ramdisk, move |world| async move {
        serve_files(&world, "ironic", &[("/boot.iso", image("do=install"))]);
        boot_cd(&world).await;
        // The image is loaded when the self test is over; the BMC goes after that.
        world.sleep(70).await;
        assert_eq!(world.journal("boot").len(), 1);
        world.net.crash("bmc");
        world.sleep(120).await;
        assert_eq!(started.lock().unwrap().len(), 1);
        assert_eq!(world.bmc.disks()[0].1, installed());
        assert_eq!(world.bmc.power(), Power::On);

        world.net.restart("bmc");
        world.serve();
        world.sleep(1).await;
        let system = world.redfish().get(&world.system()).await.json();
        assert_eq!(system["PowerState"], "On");
        assert_eq!(system["BootProgress"]["LastState"], "OSRunning");
        assert_eq!(world.bmc.image(fake_bmc::Slot::Cd), None, "virtual media do not outlive their BMC");
        assert_eq!(started.lock().unwrap().len(), 1, "nothing was started twice");
    });
}

#[test]
fn virtual_media_cannot_be_read_without_the_bmc() {
    world(config(), Recorder::default(), |world| async move {
        serve_files(&world, "ironic", &[("/boot.iso", image("x=1"))]);
        boot_cd(&world).await;
        world.client.sleep(Duration::from_millis(100)).await;
        world.net.crash("bmc");
        world.sleep(180).await;
        let boots = world.journal("boot");
        assert_eq!(boots[0]["reason"], "read the virtual medium: the BMC is gone");
        assert_eq!(boots[1]["what"], "nothing");
    });
}

#[test]
fn nobody_touches_an_idle_machine() {
    let mut config = config();
    (config.powered, config.disk) = (true, installed());
    world(config, Recorder::default(), |world| async move {
        for _ in 0..24 {
            world.sleep(3600).await;
            world.redfish().get(&world.system()).await;
        }
        assert_eq!(world.bmc.power(), Power::On);
        assert_eq!(world.bmc.disks(), [("/dev/sda".to_owned(), installed())]);
        for topic in ["power", "boot", "disk", "media"] {
            assert_eq!(world.journal(topic), [] as [serde_json::Value; 0], "{topic}");
        }
    });
}

#[test]
fn the_same_world_happens_the_same_way() {
    let hash = || {
        world(config(), Recorder::default(), |world| async move {
            serve_files(&world, "ironic", &[("/boot.iso", image("do=install"))]);
            boot_cd(&world).await;
            world.sleep(300).await;
        })
    };
    assert_eq!(hash(), hash());
}
