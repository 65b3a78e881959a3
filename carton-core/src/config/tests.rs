#![allow(clippy::unwrap_used, clippy::panic)]

use carton_format::url::Url;
use carton_network::http::{HostToken, ProxyConfig};

use super::*;
use crate::sandbox::{Limits, SandboxMode};

fn load(file: Option<&str>, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = file.map(|text| {
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Config::from_environment(path.as_deref(), variables, &mut |_, _| {})
}

#[test]
fn environment_wins_over_file_over_default() {
    let file = "cache_dir = \"/file/cache\"\nrunner_dir = \"/file/runners\"\nfuture_key = 1\noffline = true\n";
    let config = load(Some(file), &[("HOME", "/home/me"), ("CARTON_CACHE_DIR", "/env/cache")]).unwrap();
    assert_eq!(config.cache_dir, Path::new("/env/cache"));
    assert_eq!(config.runner_dir, Path::new("/file/runners"));
    assert_eq!(config.runner_data_dir, Path::new("/home/me/.carton/runner_data"));
    assert_eq!(config.runner_index, None);
    assert!(config.offline && config.network().is_offline());
    let config = load(Some(file), &[("HOME", "/home/me"), ("CARTON_OFFLINE", "off")]).unwrap();
    assert!(!config.offline && !config.auto_install && !config.allow_file_links && !config.allow_private_links);
}

#[test]
fn relative_paths_start_at_the_files_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let index = |text: &str| {
        std::fs::write(&path, format!("runner_index = \"{text}\"\nnetrc = \"logins\"\ncache_dir = \"c\"")).unwrap();
        let config =
            Config::from_environment(Some(&path), [("HOME".into(), "/h".into())].into(), &mut |_, _| {}).unwrap();
        assert_eq!(config.cache_dir, folder.path().join("c"));
        let netrc = NetrcFile::new(folder.path().join("logins"));
        assert_eq!(config.credentials.netrc, Some(netrc));
        config.runner_index.unwrap()
    };
    assert_eq!(index("index.json"), folder.path().join("index.json").to_str().unwrap());
    assert_eq!(index("/srv/index.json"), "/srv/index.json");
    assert_eq!(index("https://host/index.json"), "https://host/index.json");
    assert_eq!(index("file:///srv/index.json"), "file:///srv/index.json");
    assert_eq!(index("file:/srv/index.json"), "file:/srv/index.json");
    let cgroup = |text: &str| {
        std::fs::write(&path, format!("[sandbox]\ncgroup = \"{text}\"")).unwrap();
        let variables = [("HOME".into(), "/h".into())].into();
        Config::from_environment(Some(&path), variables, &mut |_, _| {}).unwrap().sandbox.cgroup.unwrap()
    };
    assert_eq!(cgroup("groups/mine"), folder.path().join("groups/mine"));
    assert_eq!(cgroup("~/mine"), Path::new("/h/mine"));
    assert_eq!(cgroup("/sys/fs/cgroup/mine"), Path::new("/sys/fs/cgroup/mine"));
    // The error of an invalid URL is that of its use.
    assert_eq!(index("https:host"), "https:host");
    assert_eq!(index("./odd://name"), folder.path().join("./odd://name").to_str().unwrap());
}

#[test]
fn the_network_is_limited_as_the_file_says() {
    let file = "auto_install = true\nallow_file_links = true\nallow_private_links = true\n[network]\nidle_timeout = 1.5\nmax_retries = 0\nn_ranges = 8\n";
    let config = load(Some(file), &[("HOME", "/h")]).unwrap();
    let options = config.network_options();
    assert_eq!((options.idle_timeout, options.max_retries, options.n_ranges), (Duration::from_millis(1500), 0, 8));
    assert!(config.auto_install && config.allow_file_links && config.allow_private_links && !options.offline);
    assert_eq!(load(None, &[("HOME", "/h")]).unwrap().network_options().idle_timeout, Duration::from_secs(30));
}

#[test]
fn the_proxy_is_that_of_the_file() {
    let proxy = |file: &str| load(Some(file), &[("HOME", "/h")]).unwrap().network_options().proxy;
    assert_eq!(proxy("offline = false"), ProxyConfig::Environment);
    assert_eq!(proxy("network.proxy = false"), ProxyConfig::Direct);
    let config =
        load(Some("network.proxy = \"http://me:secret@proxy:3128\"\nnetwork.no_proxy = [\"corp\"]"), &[("HOME", "/h")])
            .unwrap();
    let expected = ProxyConfig::Through {
        proxy: Url::parse("http://me:secret@proxy:3128").unwrap(),
        except: vec!["corp".to_owned()],
    };
    assert_eq!(config.proxy, expected);
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn credentials_come_from_the_file_and_the_environment() {
    let file = "netrc = false\n[[credentials]]\nhost = \"Models.Example\"\ntoken = \"secret-1\"\n[[credentials]]\n\
                host = \"[::1]:443\"\ntoken_env = \"MINE\"\nallow_http = true\nfuture = 1\n";
    let variables = [("HOME", "/h"), ("MINE", "secret-2\n"), ("CARTON_TOKEN_a_example", "secret-3")];
    let config = load(Some(file), &variables).unwrap();
    let token = |host: &str, token: &str, variable: Option<&str>, allow_http| {
        let mut token = HostToken::new(host, carton_network::http::Secret::new(token));
        token.variable = variable.map(str::to_owned);
        token.allow_http = allow_http;
        token
    };
    let tokens = [token("models.example", "secret-1", None, false), token("[::1]:443", "secret-2", Some("MINE"), true)];
    assert_eq!(config.credentials.tokens, tokens);
    assert_eq!(config.credentials.variables["CARTON_TOKEN_a_example"], carton_network::http::Secret::new("secret-3"));
    assert_eq!(config.credentials.netrc, None);
    let config = Config { runner_index: Some("https://me:secret-4@host/i?s=secret-5".to_owned()), ..config };
    let shown = format!("{config:?} {:?}", config.network());
    assert!(!shown.contains("secret") && shown.contains("https://host/i?…"), "{shown}");
    let invalid = Config { runner_index: Some("https://me:secret@host:port".to_owned()), ..config };
    assert!(!format!("{invalid:?}").contains("secret"));
    let netrc = |variables: &[(&str, &str)]| load(None, variables).unwrap().credentials.netrc.unwrap();
    assert_eq!(netrc(&[("HOME", "/h")]), NetrcFile::optional("/h/.netrc"));
    assert_eq!(netrc(&[("HOME", "/h"), ("NETRC", "/n")]), NetrcFile::new("/n"));
}

#[test]
fn bad_configurations_are_errors() {
    assert!(matches!(load(None, &[]), Err(ConfigError::NoHome { key: "runner_dir", .. })));
    let offline = load(None, &[("HOME", "/h"), ("CARTON_OFFLINE", "maybe")]).unwrap_err();
    assert_eq!(offline.to_string(), "expected `1` or `0` as CARTON_OFFLINE, found `maybe`");
    let missing = Config::from_environment(Some(Path::new("/does/not/exist")), BTreeMap::new(), &mut |_, _| {});
    assert!(matches!(missing, Err(ConfigError::Read { .. })));
}

#[test]
fn what_is_wrong_with_the_file_is_told_without_its_values() {
    let check = |file: &str, expected: &str| match load(Some(file), &[("HOME", "/h")]) {
        Err(ConfigError::Parse { source, .. }) => assert_eq!(source.to_string(), expected, "{file}"),
        other => panic!("{file}: {other:?}"),
    };
    check("cache_dir = 3", "line 1: expected path string, found integer");
    check("\noffline = \"secret, expected secret\"", "line 2: expected a boolean, found string");
    check("netrc = 3", "line 1: expected a path, or `false`");
    let credential = |lines: &str| format!("[[credentials]]\n{lines}");
    check(&credential("host = \"a\"\ntoken = 12345"), "line 3: expected a string, found integer");
    check(&credential("host = \"a\"\ntoken = secret"), "line 3: quotes are missing around a text");
    check(&credential("host = \"a\""), "line 1: expected `token` or `token_env`");
    check(&credential("host = \"a\"\ntoken = \" \""), "line 1: `token` is empty");
    let both = "host = \"a\"\ntoken = \"secret\"\ntoken_env = \"A\"";
    check(&credential(both), "line 1: `token` and `token_env` exclude each other");
    for host in ["https://a", "a/b", "me:secret@a", "", "a:", "a:99999", "::1"] {
        let file = credential(&format!("host = \"{host}\"\ntoken = \"secret\""));
        check(&file, "line 1: expected `host` to be a host, or a host and a port");
    }
    check("credentials = \"secret\"", "line 1: expected a sequence, found string");
    check("offline = false\n[network]\nidle_timeout = 0", "line 2: `idle_timeout` must be 0.1 to 3600 seconds");
    check("network.n_ranges = 65", "line 1: `n_ranges` must be 1 to 64");
    for proxy in ["proxy:3128", "socks5://proxy", "http://proxy/path", "http://proxy?x=secret", "secret"] {
        let expected = "line 1: `proxy` must be an `http` or `https` URL with a host alone, such as \"http://proxy.example.com:3128\"";
        check(&format!("network.proxy = \"{proxy}\""), expected);
    }
    check("network.no_proxy = [\"a\"]", "line 1: `no_proxy` needs `proxy`");
    for host in ["", "a b", "a,b", "10.0.0.0/33", "10.0.0/8", "https://a"] {
        let expected = "line 1: each of `no_proxy` must be a name, an address or a network, such as \"example.com\"";
        check(&format!("[network]\nproxy = \"http://p\"\nno_proxy = [\"{host}\", \"fd00::/8\", \".a\"]"), expected);
    }
    check("network.max_retries = 1001", "line 1: `max_retries` must be at most 1000");
}

#[test]
fn a_tilde_is_the_home_directory() {
    let file = "cache_dir = \"~\"\nrunner_dir = \"~/r\"\nrunner_data_dir = \"x/~\"\nrunner_index = \"~/index.json\"\nnetrc = \"~/n\"";
    let config = load(Some(file), &[("HOME", "/home/me")]).unwrap();
    assert_eq!(config.cache_dir, Path::new("/home/me"));
    assert_eq!(config.runner_dir, Path::new("/home/me/r"));
    assert!(config.runner_data_dir.ends_with("x/~") && config.runner_data_dir != Path::new("x/~"));
    assert_eq!(config.runner_index.as_deref(), Some("/home/me/index.json"));
    assert_eq!(config.credentials.netrc.unwrap().path, Path::new("/home/me/n"));
    let variables = [
        ("HOME", "/home/me"),
        ("CARTON_CACHE_DIR", "~/a/b"),
        ("CARTON_RUNNER_DIR", "~"),
        ("CARTON_RUNNER_DATA_DIR", "~/"),
        ("CARTON_RUNNER_INDEX", "~/i"),
        ("NETRC", "~/m"),
    ];
    let config = load(None, &variables).unwrap();
    assert_eq!(config.cache_dir, Path::new("/home/me/a/b"));
    assert_eq!((config.runner_dir.to_str(), config.runner_data_dir.to_str()), (Some("/home/me"), Some("/home/me")));
    assert_eq!(config.runner_index.as_deref(), Some("/home/me/i"));
    assert_eq!(config.credentials.netrc.unwrap().path, Path::new("/home/me/m"));

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.toml"), "cache_dir = \"c\"").unwrap();
    let home = folder.path().to_str().unwrap();
    let config = load(None, &[("HOME", home), ("CARTON_CONFIG_PATH", "~/c.toml")]).unwrap();
    assert_eq!(config.cache_dir, folder.path().join("c"));
    // The home of another user is not guessed, and without a home directory `~` cannot be expanded.
    let refused = |file: Option<&str>, variables: &[(&str, &str)], expected: &str| {
        let error = load(file, variables).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    refused(
        None,
        &[("HOME", "/h"), ("CARTON_CACHE_DIR", "~you/c")],
        "cannot use the path `~you` as CARTON_CACHE_DIR: the home",
    );
    refused(Some("netrc = \"~you\""), &[("HOME", "/h")], "cannot use the path `~you` as netrc: the home of another");
    refused(
        None,
        &[("CARTON_RUNNER_INDEX", "~you/i"), ("HOME", "/h")],
        "cannot use the path `~you` as CARTON_RUNNER_INDEX",
    );
    refused(
        None,
        &[("CARTON_CACHE_DIR", "~/c"), ("CARTON_RUNNER_DIR", "/r"), ("CARTON_RUNNER_DATA_DIR", "/d")],
        "cannot use the path `~` as CARTON_CACHE_DIR: there is no home",
    );
    let literal = load(None, &[("HOME", "/h"), ("CARTON_CACHE_DIR", "./~you")]).unwrap();
    assert_eq!(literal.cache_dir, Path::new("./~you"));
}

#[test]
fn unknown_keys_are_reported_with_the_nearest_known_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let file = "cachedir = \"x\"\nfuture = 1\n[network]\nretries = 1\n[[credentials]]\nhost = \"h\"\ntoken = \"secret\"\ntoken_enf = \"A\"\n";
    std::fs::write(&path, file).unwrap();
    let mut found = Vec::new();
    let variables = [("HOME".into(), "/h".into())].into();
    Config::from_environment(Some(&path), variables, &mut |file, key| {
        assert_eq!(file, path);
        found.push(key.to_string());
    })
    .unwrap();
    let expected = [
        "line 1: unknown key `cachedir`: did you mean `cache_dir`?",
        "line 2: unknown key `future`",
        "line 4: unknown key `retries` in network: did you mean `max_retries`?",
        "line 8: unknown key `token_enf` in credentials[0]: did you mean `token_env`?",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_sandbox_is_a_mode_or_a_section() {
    let sandbox = |file: &str| load(Some(file), &[("HOME", "/h")]).map(|config| config.sandbox);
    assert_eq!(sandbox("").unwrap(), SandboxConfig::default());
    assert_eq!(sandbox("sandbox = 'strict'").unwrap().mode, SandboxMode::Strict);
    let file = "[sandbox]\nmode = 'off'\nallow = ['network', 'read=/srv', 'read=~/data', 'build']\nmemory = 1_000\n\
                processes = 7\ncgroup = '/sys/fs/cgroup/mine'\nwrapper = ['nice', '-n', '10']";
    let found = sandbox(file).unwrap();
    assert_eq!((found.mode, found.limits.memory, found.limits.processes), (SandboxMode::Off, Some(1000), Some(7)));
    assert_eq!(found.allow.read, [Path::new("/srv"), Path::new("/h/data")]);
    assert!(found.allow.network && found.allow.build);
    assert_eq!(found.wrapper, ["nice", "-n", "10"]);
    for name in Limits::NAMES {
        let limits = sandbox(&format!("[sandbox]\n{name} = 7")).unwrap().limits;
        assert_eq!(Limits::NAMES.iter().filter_map(|other| limits.get(other)).collect::<Vec<_>>(), [7]);
        assert_eq!(limits.get(name), Some(7));
    }
}

/// A restriction that the user relies on is not ignored because it is misspelt.
#[test]
fn a_wrong_sandbox_is_an_error_that_names_the_key() {
    let check = |file: &str, expected: &str| {
        let error = load(Some(file), &[("HOME", "/h")]).unwrap_err();
        let text = carton_format::causes::in_one_line(&error);
        assert!(text.contains(expected), "{file}: {text}");
    };
    check("sandbox = 'tight'", "expected `strict`, `on` or `off`");
    check("sandbox = 1", "`strict`, `on`, `off`, or a table");
    check("[sandbox]\nmode = 'tight'", "tight");
    check("[sandbox]\nlimits = { memory = 1 }", "limits");
    check("[sandbox]\nmemory = '1GB'", "line 2: expected u64");
    check("[sandbox]\nallow = ['everything']", "everything");
    check("[sandbox]\nallow = ['read=data']", "read=data");
    check("[sandbox]\nwrapper = 'nice'", "line 2: ");
}
