package hub

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// official is the origin of the hub itself.
const official = "https://huggingface.co"

// LookupEnv finds a variable of the environment, as os.LookupEnv does.
type LookupEnv func(name string) (value string, found bool)

// settings is what the environment says, under the names that the Python tools use.
type settings struct {
	endpoint  *url.URL
	token     string
	tokenless bool          // HF_HUB_DISABLE_IMPLICIT_TOKEN says that none is to be sent
	cache     string        // the hub's cache; "": there is no home to have it in
	headers   time.Duration // from request to headers
	idle      time.Duration // a body that gives less than minFlow in it is cut
	offline   string        // the variable that says so; "": not
}

// get returns a variable, or the first of several that is set, without space around it.
func (env LookupEnv) get(names ...string) string {
	for _, name := range names {
		if v, _ := env(name); strings.TrimSpace(v) != "" {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// on reports whether a variable is one of the words for yes.
func (env LookupEnv) on(name string) bool {
	switch strings.ToUpper(env.get(name)) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
}

// ProgressDisabled reports whether HF_HUB_DISABLE_PROGRESS_BARS asks for silence.
func (env LookupEnv) ProgressDisabled() bool { return env.on("HF_HUB_DISABLE_PROGRESS_BARS") }

func (env LookupEnv) settings() (s settings, err error) {
	endpoint := strings.TrimRight(env.get("HF_ENDPOINT"), "/")
	if endpoint == "" {
		endpoint = official
	}
	s.endpoint, err = url.Parse(endpoint)
	if err != nil || s.endpoint.Host == "" || s.endpoint.Scheme != "https" && s.endpoint.Scheme != "http" || s.endpoint.User != nil || s.endpoint.RawQuery != "" || strings.Contains(endpoint, "#") {
		if k := strings.LastIndexByte(endpoint, '@'); k >= 0 { // before it stands a password
			endpoint = "...@" + endpoint[k+1:]
		}
		return s, &Error{Class: ClassInvalid, Text: fmt.Sprintf("HF_ENDPOINT %s is no address of a hub", scrub(endpoint)), Hint: "HF_ENDPOINT=" + official}
	}
	home := env.dir("HF_HOME")
	if home == "" {
		if base := env.dir("XDG_CACHE_HOME"); base != "" {
			home = filepath.Join(base, "huggingface")
		} else if user := env.get("HOME"); user != "" {
			home = filepath.Join(user, ".cache", "huggingface")
		}
	}
	if s.cache = env.dir("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"); s.cache == "" && home != "" {
		s.cache = filepath.Join(home, "hub")
	}
	if s.cache != "" {
		if s.cache, err = filepath.Abs(s.cache); err != nil {
			return s, local("the cache of the hub", err)
		}
	}
	// A switch of its own for datasets, as the Python library has it: what keeps models from the network need not keep these.
	s.offline = ""
	if v, found := env("HF_DATASETS_OFFLINE"); found && strings.TrimSpace(v) != "" {
		if env.on("HF_DATASETS_OFFLINE") {
			s.offline = "HF_DATASETS_OFFLINE"
		}
	} else if env.on("HF_HUB_OFFLINE") {
		s.offline = "HF_HUB_OFFLINE"
	}
	if s.headers, err = env.seconds("HF_HUB_ETAG_TIMEOUT", 10*time.Second); err != nil {
		return s, err
	}
	if s.idle, err = env.seconds("HF_HUB_DOWNLOAD_TIMEOUT", 30*time.Second); err != nil {
		return s, err
	}
	if s.tokenless = env.on("HF_HUB_DISABLE_IMPLICIT_TOKEN"); !s.tokenless {
		s.token, err = env.token(home)
	}
	return s, err
}

// dir returns a variable that names a directory, with ~ for the home of the user.
func (env LookupEnv) dir(names ...string) string {
	v := env.get(names...)
	if rest, ok := strings.CutPrefix(v, "~"); ok && (rest == "" || rest[0] == '/') {
		if home := env.get("HOME"); home != "" {
			return filepath.Join(home, rest)
		}
	}
	return v
}

// Timeouts, in seconds: in less no hub on earth answers, and more is no timeout.
const (
	minSeconds = 0.01
	maxSeconds = 1e6
)

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

// maxToken bounds a file that holds a token, in bytes.
const maxToken = 64 << 10

func readToken(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return io.ReadAll(io.LimitReader(f, maxToken))
}

// token finds the token: a variable, or the file that "hf auth login" writes. None is needed for public datasets.
func (env LookupEnv) token(home string) (string, error) {
	from := "HF_TOKEN"
	token := env.get("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
	if token == "" {
		path := env.dir("HF_TOKEN_PATH")
		if path == "" {
			if home == "" {
				return "", nil
			}
			path = filepath.Join(home, "token")
		}
		data, err := readToken(path)
		if err != nil {
			return "", nil // as without one: the hub will say if it needs it
		}
		token, from = strings.TrimSpace(string(data)), path
	}
	for k := range len(token) {
		if token[k] <= ' ' || token[k] >= 0x7f {
			return "", &Error{Class: ClassCredentials, Text: "the token of " + from + " holds a character that no token has"}
		}
	}
	return token, nil
}
