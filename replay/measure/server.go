package measure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Server is what a server of a run tells of itself, beside the length of its context. Nothing of it is guessed: what it does not tell is not known.
type Server struct {
	URL      string `json:"url"`      // without user, query and fragment
	Software string `json:"software"` // such as vllm; "": not known
	Version  string `json:"version"`  // "": not known

	ModelPath string `json:"model_path,omitempty"` // of the weights; "": not known
	Parallel  string `json:"parallel,omitempty"`   // degrees of parallelism, such as tp 8, dp 2; "": not known

	PrefixCaching     *bool  `json:"prefix_caching"`      // nil: not known
	PrefixCachingFrom string `json:"prefix_caching_from"` // FromMetrics, FromServer or FromAnswers; "": not known
}

// What tells whether a server caches prefixes.
const (
	FromMetrics = "metrics" // a label of its page of metrics
	FromServer  = "server"  // the document with its version
	FromAnswers = "answers" // an answer had cached tokens
)

// caches reports whether a server is known to cache prefixes, or not to.
func (s *Server) caches(or bool) bool { return s.PrefixCaching != nil && *s.PrefixCaching == or }

// text returns what is known of a server, "" for nothing.
func (s *Server) text() string {
	parts := []string{strings.TrimSpace(s.Software + " " + s.Version), s.Parallel}
	if s.ModelPath != "" {
		parts = append(parts, "model "+s.ModelPath)
	}
	switch {
	case s.caches(true):
		parts = append(parts, "prefix caching on")
	case s.caches(false):
		parts = append(parts, "prefix caching off")
	case parts[0] != "":
		parts = append(parts, "prefix caching unknown")
	}
	return strings.Join(slices.DeleteFunc(parts, isEmpty), ", ")
}

// ServerText names the servers of a run, each with what is known of it; those of which the same is known together. It is "" where nothing is.
func (r *Run) ServerText() string {
	var texts []string
	of := map[string][]string{} // URLs by text
	for k := range r.Servers {
		text := r.Servers[k].text()
		if of[text] == nil {
			texts = append(texts, text)
		}
		of[text] = append(of[text], r.Servers[k].URL)
	}
	if len(texts) == 0 || len(texts) == 1 && texts[0] == "" {
		return ""
	}
	for k, text := range texts {
		urls := of[text]
		if more := len(urls) - maxNamedServers; more > 0 {
			urls = append(urls[:maxNamedServers:maxNamedServers], fmt.Sprintf("and %d more", more))
		}
		if texts[k] = strings.Join(urls, ", "); text != "" {
			texts[k] += ": " + text
		}
	}
	return strings.Join(texts, "; ")
}

// maxNamedServers is how many servers a text names of which the same is known.
const maxNamedServers = 4

// withAnswers returns servers with what answers tell: one whose answers had cached tokens caches prefixes. At says which had, by its position.
func withAnswers(list []Server, at *ordinalSet) []Server {
	list = slices.Clone(list)
	for k := range list {
		if s := &list[k]; s.PrefixCaching == nil && at.has(k) {
			on := true
			s.PrefixCaching, s.PrefixCachingFrom = &on, FromAnswers
		}
	}
	return list
}

// prefixCaching says that servers do not cache prefixes, or that none is seen to, of a run whose prompts repeat others.
func (e *evidence) prefixCaching() (string, []string) {
	reuse := e.Fidelity.PrefixReuse.Sent
	if e.info == nil || !(reuse > reuseLoss) {
		return "", nil
	}
	var off []string
	known := false
	for k := range e.Run.Servers {
		s := &e.Run.Servers[k]
		known = known || s.PrefixCaching != nil
		if s.caches(false) {
			off = append(off, s.URL)
		}
	}
	switch {
	case len(off) > 0:
		return fmt.Sprintf("prefix caching is off at %s: %s of what was sent repeats an earlier prompt, and was computed again", strings.Join(off, ", "), FormatShare(reuse)), nil
	case !known && e.TokenHitRate == 0:
		return fmt.Sprintf("the servers report no cached token, and %s of what was sent repeats an earlier prompt: whether they cache prefixes is not known", FormatShare(reuse)), nil
	}
	return "", nil
}

// AddressCount is how many requests of the measured phase one address of a server got whose name has several.
type AddressCount struct {
	URL      int    `json:"url"` // position in the URLs of the run
	Address  string `json:"address"`
	Requests int    `json:"requests"`
}

// addresses count requests by the address that got them.
type addresses map[AddressCount]int

func (a *addresses) add(r *Record) {
	if r.Address == "" {
		return
	}
	if *a == nil {
		*a = addresses{}
	}
	(*a)[AddressCount{URL: r.server(), Address: r.Address}]++
}

// list returns the counts by URL and address; nil without any.
func (a addresses) list() (list []AddressCount) {
	for _, c := range slices.SortedFunc(maps.Keys(a), func(x, y AddressCount) int { return cmp.Or(x.URL-y.URL, cmp.Compare(x.Address, y.Address)) }) {
		n := a[c]
		c.Requests = n
		list = append(list, c)
	}
	return list
}

// maxAddresses is how many addresses a table shows.
const maxAddresses = 16

// addresses writes how many requests each address got, where there are several.
func (s *Summary) addresses(b *strings.Builder) {
	if len(s.Addresses) == 0 {
		return
	}
	var parts []string
	for k, c := range s.Addresses {
		if k == maxAddresses {
			parts = append(parts, fmt.Sprintf("and %d more", len(s.Addresses)-k))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %d", c.Address, c.Requests))
	}
	row(b, "addresses", "requests each: %s", strings.Join(parts, ", "))
}
