package scrape

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// Validate returns an error that names the first page that cannot be read, by its number alone: its URL may hold a password.
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

// Validate returns an error about a page that cannot be read. It does not repeat the URL.
func (p Page) Validate() error {
	u, err := url.Parse(p.URL)
	switch {
	case err != nil:
		return errors.New("no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("want http://HOST:PORT/PATH or https://HOST/PATH")
	case u.Fragment != "":
		return errors.New("a fragment is no part of a page")
	}
	return nil
}

// Name returns the URL of a page without user, password and query.
func (p Page) Name() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "the page"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
