//! Images: right ones, wrong ones, and servers that break off.

use sha2::Digest as _;
use wire::http::Fate;

use super::*;

const IMAGE: &[u8] = b"an operating system";
const URL: &str = "http://cache/images/disk.qcow2";

fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Serves an image with its checksum file; the first answers for the image may be something else.
fn serve_cache(host: &Host, first: Vec<Fate>) {
    let first = Arc::new(Mutex::new(first));
    let app = Router::new()
        .route(
            "/images/disk.qcow2",
            axum::routing::get(move || {
                let mut first = first.lock().expect("no test panicked");
                let fate = (!first.is_empty()).then(|| first.remove(0));
                let mut response = IMAGE.into_response();
                if let Some(fate) = fate {
                    response.extensions_mut().insert(fate);
                }
                std::future::ready(response)
            }),
        )
        .route(
            "/images/disk.sha256",
            axum::routing::get(async || {
                format!("{}  other.qcow2\n{}  disk.qcow2\n", sha256(b""), sha256(IMAGE))
            }),
        );
    let host = host.clone();
    drop(host.clone().spawn(async move { wire::http::serve(&host, 80, app).await }));
}

fn write_image(info: Value) -> Value {
    let mut all =
        json!({ "id": "disk.qcow2", "urls": [URL], "disk_format": null, "stream_raw_images": true });
    for (key, value) in info.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    json!({ "step": { "step": "write_image", "interface": "deploy", "args": { "image_info": all } } })
}

/// What became of an image, what the disk saw, and how long it took.
fn written(first: Vec<Fate>, info: Value) -> (CommandStatus, Vec<String>, u64) {
    simulate(move |net| async move {
        serve_cache(&net.host("cache"), first);
        let booted = boot(&net, &[], &[]);
        booted.ironic.heartbeat().await;
        let began = booted.ironic.host.now();
        let ended = booted.outcome("deploy.execute_deploy_step", write_image(info)).await;
        (ended, booted.machine.done(), (booted.ironic.host.now() - began).as_secs())
    })
}

#[test]
fn an_image_is_written_when_its_digest_is_right() {
    let wrote = format!("wrote {} from {URL}", sha256(IMAGE));
    let md5: String = md5::Md5::digest(IMAGE).iter().map(|byte| format!("{byte:02x}")).collect();
    for info in [
        json!({ "os_hash_algo": "sha256", "os_hash_value": sha256(IMAGE) }),
        json!({ "os_hash_algo": "sha256", "os_hash_value": "http://cache/images/disk.sha256" }),
        json!({ "checksum": "http://cache/images/disk.sha256" }),
        json!({ "checksum": md5 }),
    ] {
        let (ended, done, _) = written(Vec::new(), info.clone());
        assert_eq!(ended.progress, Progress::Succeeded, "{info}: {:?}", ended.error);
        assert_eq!(
            ended.result["deploy_result"],
            "image (disk.qcow2) written to device /dev/sda root_uuid=None"
        );
        assert_eq!(done, [wrote.as_str()], "{info}");
    }
}

#[test]
fn a_broken_download_is_tried_again() {
    let info = json!({ "os_hash_algo": "sha256", "os_hash_value": sha256(IMAGE) });
    for first in [vec![Fate::Truncate(3), Fate::Reset], vec![Fate::ResetAfter(3), Fate::Close]] {
        let (ended, done, took) = written(first.clone(), info.clone());
        assert_eq!(ended.progress, Progress::Succeeded, "{first:?}: {:?}", ended.error);
        assert_eq!(done.len(), 1);
        // Two pauses of 10 s, and the disk's time.
        assert!((40..45).contains(&took), "{first:?} took {took} s");
    }
}

#[test]
fn a_wrong_image_is_not_written_but_a_raw_one_is_found_out_too_late() {
    let wrong = sha256(b"another system");
    let info = json!({ "os_hash_algo": "sha256", "os_hash_value": wrong });
    let (ended, done, took) = written(Vec::new(), info);
    let error = ended.error.expect("the digest is wrong");
    assert_eq!((error.kind.as_str(), error.message.as_str()), ("DeploymentError", "Deploy step failed"));
    assert_eq!(
        error.details,
        format!(
            "Error performing deploy_step write_image: Error verifying image checksum: Image failed to verify against checksum. location: /tmp/disk.qcow2; image ID: disk.qcow2; image checksum: {wrong}; verification checksum: {}",
            sha256(IMAGE)
        )
    );
    assert_eq!(done, [""; 0]);
    assert!((90..95).contains(&took), "10 downloads with 9 pauses of 10 s took {took} s");
    let info = json!({ "os_hash_algo": "sha256", "os_hash_value": wrong, "disk_format": "raw" });
    let (ended, done, _) = written(Vec::new(), info);
    assert_eq!(ended.progress, Progress::Failed);
    assert_eq!(done.len(), 10);
}

#[test]
fn what_cannot_be_downloaded_or_checked_fails_the_step() {
    let digest = sha256(IMAGE);
    for (info, words, seconds) in [
        (
            json!({ "urls": ["http://cache/images/gone"], "checksum": digest }),
            "Received status code 404 from http://cache/images/gone, expected 200.",
            90,
        ),
        (
            json!({ "checksum": "http://cache/images/gone.sha256" }),
            "Received status code 404 from http://cache/images/gone.sha256, expected 200.",
            90,
        ),
        (json!({ "os_hash_algo": "sha3", "os_hash_value": digest }), "is supported by this ramdisk", 0),
        (json!({}), "Image is missing 'checksum' field.", 0),
    ] {
        let (ended, done, took) = written(Vec::new(), info.clone());
        let details = ended.error.expect("it cannot work").details;
        assert!(details.ends_with(words), "{details}");
        assert_eq!(done, [""; 0]);
        assert!((seconds..seconds + 6).contains(&took), "{info} took {took} s");
    }
}
