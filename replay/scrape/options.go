package scrape

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// File is the name of the file in the directory of a run.
const File = "server_metrics.jsonl"

// When a page is asked.
const (
	Interval = 333 * time.Millisecond
	Timeout  = 10 * time.Second // of one request, from its beginning to the last byte of its answer
	Tail     = 2 * time.Second  // for so long after the end of a run
)

// MaxPages bounds the pages of a Collector.
const MaxPages = 256

// Page is a page of metrics.
type Page struct {
	URL     string // also with user, password and query, which stand in no file and no message
	Default bool   // the page of a server, not asked for: if its first answer is none, it is left alone
	Header  http.Header
	TLS     *tls.Config // of an https page; nil: the system's roots
	Instead string      // URL of a page of the same server that is read where this one is JSON; "": none
}

// Options say what a Collector reads. Pages is required.
type Options struct {
	Pages []Page

	// Transport carries the requests of one page; nil: a connection of its own to each. The Collector calls it once for each
	// page, and closes the idle connections of what it gives.
	Transport func() http.RoundTripper

	// Now is the wall clock of the samples; nil: one reading of the machine's, and the monotonic time since.
	Now func() time.Time

	// Notice gets what is odd, a line at a time, and must not wait; nil: nothing gets it.
	Notice func(string)
}

// Validate returns an error that names the first page that cannot be read, without user, password and query.
func (o Options) Validate() error {
	if len(o.Pages) == 0 || len(o.Pages) > MaxPages {
		return fmt.Errorf("%d pages of metrics: want 1 to %d", len(o.Pages), MaxPages)
	}
	for k, p := range o.Pages {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("page %d of metrics: %w", k+1, err)
		}
	}
	return nil
}

// Validate returns an error about a page that cannot be read. It repeats the URL without user, password and query.
func (p Page) Validate() error {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return fmt.Errorf("%q: want http://HOST:PORT/PATH or https://HOST/PATH", withoutSecrets(p.URL))
	case u.Fragment != "":
		return fmt.Errorf("%q: a fragment, such as #x, is no part of a page", withoutSecrets(p.URL))
	}
	return nil
}

// withoutSecrets returns a text that may be no URL without what would be user and password, query and fragment of one.
func withoutSecrets(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if scheme += "://"; !found || strings.ContainsAny(scheme[:len(scheme)-3], ":@?#") {
		scheme, rest = "", text
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	return scheme + rest
}

// Name returns the URL of a page without user, password and query.
func (p Page) Name() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "the page"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
