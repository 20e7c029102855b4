package hub

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/regular"
)

// Options configure Fetch. The zero value works: it takes its settings from the environment, verifies every file, and
// waits for other processes that download the same.
type Options struct {
	// CacheRoot is the cache root of agentx. If the hub's own cache cannot be written, downloads go to CacheRoot/hub. With
	// "" there is no such fallback.
	CacheRoot string
	// TrustCached accepts LFS files of the cache by their size, without opening them. The caller then compares what it
	// reads with File.SHA256.
	TrustCached bool
	// ExportDir is the directory that Snapshot.Export will write to. Fetch checks it before the download, unless it is "".
	ExportDir string
	// Version is the version of the program, for the header User-Agent.
	Version string

	// Wait limits how long Fetch waits for another process that downloads the same file: 0 as long as that process is
	// alive, below 0 not at all.
	Wait time.Duration
	// OnWait is called several times per heartbeat of the other process while Fetch waits for it; may be nil.
	OnWait func(holder string, waited time.Duration)

	// Progress is called with the number of bytes that arrived or were verified since the last call, and the size of all
	// files. Several goroutines call it; may be nil.
	Progress func(n, total int64)
	// OnResolved is called once, when the commit is known; may be nil.
	OnResolved func(*Snapshot)
	// Logf is called with warnings for the user: waits, and copies that are not used; may be nil.
	Logf func(format string, args ...any)

	// Env looks up environment variables; nil is os.LookupEnv.
	Env LookupEnv
	// Transport carries the requests; nil is the network, with the proxies of the environment.
	Transport http.RoundTripper

	rand func() float64 // numbers in [0, 1) for the jitter of retries; nil is math/rand
}

// Validate reports the first option that Fetch refuses.
func (o Options) Validate() error {
	for _, c := range []byte(o.Version) {
		if c < ' ' || c > '~' {
			return &Error{Class: ClassInvalid, Text: fmt.Sprintf("option Version %q: want printable ASCII", o.Version)}
		}
	}
	return nil
}

// withDefaults replaces nil fields by their defaults.
func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.rand == nil {
		o.rand = rand.Float64
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.OnResolved == nil {
		o.OnResolved = func(*Snapshot) {}
	}
	if o.OnWait == nil {
		o.OnWait = func(string, time.Duration) {}
	}
	return o
}

// Defaults of the settings that the environment can change.
const (
	DefaultEndpoint      = "https://huggingface.co" // HF_ENDPOINT
	defaultHeaderTimeout = 10 * time.Second         // HF_HUB_ETAG_TIMEOUT: from a request to the headers of its reply
	defaultIdleTimeout   = 30 * time.Second         // HF_HUB_DOWNLOAD_TIMEOUT: in which a body must deliver 64 KiB
)

// LookupEnv looks up an environment variable, as os.LookupEnv does.
type LookupEnv func(name string) (value string, found bool)

// ProgressDisabled reports whether HF_HUB_DISABLE_PROGRESS_BARS is set.
func (env LookupEnv) ProgressDisabled() bool { return env.isOn("HF_HUB_DISABLE_PROGRESS_BARS") }

// settings are the values of the environment variables, which have the names and meanings of the Python tools.
type settings struct {
	endpoint      *url.URL
	token         string         // "": requests have none
	notes         [2]string      // for the user, about the authorities and the token; "": none
	authorities   *x509.CertPool // nil: those of the machine
	tokenDisabled bool           // HF_HUB_DISABLE_IMPLICIT_TOKEN
	cacheDir      string         // the hub's cache; "": there is no home directory for it
	headerTimeout time.Duration
	idleTimeout   time.Duration
	offline       string // the variable that forbids the network; "": it is allowed
}

// settings reads all variables that count for repositories of a kind.
func (env LookupEnv) settings(k kind) (s settings, err error) {
	if s.endpoint, err = env.endpoint(); err != nil {
		return s, err
	}
	home := env.home()
	if s.cacheDir = env.dir("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"); s.cacheDir == "" && home != "" {
		s.cacheDir = filepath.Join(home, "hub")
	}
	if s.cacheDir != "" {
		if s.cacheDir, err = filepath.Abs(s.cacheDir); err != nil {
			return s, diskError("the cache of the hub", err)
		}
	}
	s.offline = env.offline(k)
	if s.headerTimeout, err = env.seconds("HF_HUB_ETAG_TIMEOUT", defaultHeaderTimeout); err != nil {
		return s, err
	}
	if s.idleTimeout, err = env.seconds("HF_HUB_DOWNLOAD_TIMEOUT", defaultIdleTimeout); err != nil {
		return s, err
	}
	s.authorities, s.notes[0] = env.authorities()
	if s.tokenDisabled = env.isOn("HF_HUB_DISABLE_IMPLICIT_TOKEN"); !s.tokenDisabled {
		s.token, s.notes[1], err = env.token(home)
	}
	return s, err
}

// get returns the first of several variables that is not blank, without surrounding space.
func (env LookupEnv) get(names ...string) string {
	for _, name := range names {
		if v, _ := env(name); strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// isOn reports whether a variable is one of the words for yes.
func (env LookupEnv) isOn(name string) bool {
	switch strings.ToUpper(env.get(name)) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// dir returns the first of several variables that is not blank, with ~ expanded to the home directory.
func (env LookupEnv) dir(names ...string) string {
	v := env.get(names...)
	if rest, ok := strings.CutPrefix(v, "~"); ok && (rest == "" || rest[0] == '/') {
		if home := env.get("HOME"); home != "" {
			return filepath.Join(home, rest)
		}
	}
	return v
}

// endpoint returns the address of the hub or of its mirror.
func (env LookupEnv) endpoint() (*url.URL, error) {
	text := cmp.Or(strings.TrimRight(env.get("HF_ENDPOINT"), "/"), DefaultEndpoint)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || strings.Contains(text, "#") {
		if k := strings.LastIndexByte(text, '@'); k >= 0 { // it may follow a password
			text = "...@" + text[k+1:]
		}
		return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("HF_ENDPOINT %s: want http(s)://HOST[:PORT][/PATH] without user and query", redact(text)), Hint: "HF_ENDPOINT=" + DefaultEndpoint}
	}
	return u, nil
}

// home returns the directory of the Python tools, "" without a home directory.
func (env LookupEnv) home() string {
	if home := env.dir("HF_HOME"); home != "" {
		return home
	}
	if base := env.dir("XDG_CACHE_HOME"); base != "" {
		return filepath.Join(base, "huggingface")
	}
	if user := env.get("HOME"); user != "" {
		return filepath.Join(user, ".cache", "huggingface")
	}
	return ""
}

// offline returns the variable that forbids the network. HF_DATASETS_OFFLINE, if it is set, overrides HF_HUB_OFFLINE for datasets:
// a machine that must not download models may still download those. TRANSFORMERS_OFFLINE counts for models where HF_HUB_OFFLINE is
// not set.
func (env LookupEnv) offline(k kind) string {
	name := "HF_HUB_OFFLINE"
	switch {
	case k == datasets && env.get("HF_DATASETS_OFFLINE") != "":
		name = "HF_DATASETS_OFFLINE"
	case k == models && env.get(name) == "":
		name = "TRANSFORMERS_OFFLINE"
	}
	if env.isOn(name) {
		return name
	}
	return ""
}

// Limits of a timeout, in seconds. The lower one is below any round trip.
const (
	minSeconds = 0.01
	maxSeconds = 1e6
)

// seconds returns a variable that holds a number of seconds, or value where it is not set.
func (env LookupEnv) seconds(name string, value time.Duration) (time.Duration, error) {
	text := env.get(name)
	if text == "" {
		return value, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= minSeconds) || v > maxSeconds {
		return 0, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s=%s: want a number of seconds, from %g to %g", name, text, minSeconds, maxSeconds), Hint: fmt.Sprintf("%s=%g", name, value.Seconds())}
	}
	return time.Duration(v * float64(time.Second)), nil
}

// token returns the token of a variable, or of the file that "hf auth login" writes; "" if there is none, or the file
// cannot be read: public datasets need no token. Quotes around it, which a file of variables or a container keeps, are left out, and
// noted.
func (env LookupEnv) token(home string) (token, note string, err error) {
	from := "HF_TOKEN"
	if token = env.get("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"); token == "" {
		path := env.dir("HF_TOKEN_PATH")
		if path == "" {
			if home == "" {
				return "", "", nil
			}
			path = filepath.Join(home, "token")
		}
		data, err := regular.Read(path, maxToken)
		if err != nil {
			return "", "", nil
		}
		token, from = strings.TrimSpace(string(data)), path
	}
	if n := len(token); n > 2 && (token[0] == '"' || token[0] == '\'') && token[n-1] == token[0] {
		token, note = token[1:n-1], "the quotes around the token of "+from+" are left out"
	}
	for k := range len(token) {
		if token[k] <= ' ' || token[k] >= 0x7f {
			return "", "", &Error{Class: ClassCredentials, Text: "the token of " + from + " contains a character that no token has"}
		}
	}
	return token, note, nil
}

// maxToken limits a file with a token, in bytes.
const maxToken = 64 << 10

// authorities returns the certificates of the variable of Python's requests, a file or a directory of PEM, beside those of the machine;
// nil where it is not set. A variable that leads to none was set for another program, and is noted.
func (env LookupEnv) authorities() (pool *x509.CertPool, note string) {
	for _, name := range []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} {
		at := env.dir(name)
		if at == "" {
			continue
		}
		pool, err := readAuthorities(at)
		if err != nil {
			note = fmt.Sprintf("%s=%s gives no authority: %v", name, at, err)
		}
		return pool, note
	}
	return nil, ""
}

// readAuthorities reads the certificates of a file, or of the files of a directory.
func readAuthorities(at string) (*x509.CertPool, error) {
	paths := []string{at}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(at, "*")); err != nil {
			return nil, err
		}
	}
	pool, err := x509.SystemCertPool() // with those of SSL_CERT_FILE
	if err != nil {
		pool = x509.NewCertPool()
	}
	found := false
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			if path != at {
				continue // a directory in it, or a link of c_rehash that leads nowhere
			}
			return nil, err
		}
		found = pool.AppendCertsFromPEM(data) || found
	}
	if !found {
		return nil, errors.New("no certificate in PEM there")
	}
	return pool, nil
}
