package replay

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/wire"
)

// versionDocuments are the documents in which servers tell their version, below their roots, in the order in which they are asked for.
var versionDocuments = []struct {
	path, software string // "": what owned_by of the list of models says
}{{"/server_info", "sglang"}, {"/get_server_info", "sglang"}, {"/version", ""}, {"/props", "llama.cpp"}, {"/info", "text-generation-inference"}}

// versionDocument has what is read of any of them.
type versionDocument struct {
	Version      any
	BuildInfo    any `json:"build_info"`          // llama.cpp
	ModelID      any `json:"model_id"`            // text-generation-inference
	DisableRadix any `json:"disable_radix_cache"` // SGLang
	Args         *struct {
		DisableRadix any `json:"disable_radix_cache"`
	} `json:"server_args"`
}

// askServers fills in what the servers of a run tell of themselves: doc/spec/replay.md 2.8. It is called when the measured phase is over, so
// that no request waits for it, and takes no longer than a time.
func (r *run) askServers(ctx context.Context, atMost time.Duration) {
	if r.SkipPreflight {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	var all sync.WaitGroup
	for k, url := range r.URLs {
		all.Go(func() { r.askServer(ctx, url, &r.results.info.Servers[k]) })
	}
	all.Wait()
}

// endServers ends the reading of the pages of metrics, and asks the servers meanwhile. Of a run that has come to its end that takes as long
// as scrape.Tail, of another one lastWait.
func (r *run) endServers(ctx context.Context, whole bool) {
	asking, atMost := ctx, scrape.Tail
	if !whole {
		asking, atMost = context.WithoutCancel(ctx), lastWait
	}
	var asked sync.WaitGroup
	asked.Go(func() { r.askServers(asking, atMost) })
	r.results.info.ServerMetrics = r.scraping.end(ctx, whole)
	asked.Wait()
	for k, url := range r.URLs {
		if on, known := r.scraping.labelOf(url, len(r.URLs) == 1, "vllm:cache_config_info", "enable_prefix_caching"); known {
			s := &r.results.info.Servers[k]
			s.PrefixCaching, s.PrefixCachingFrom = &on, measure.FromMetrics
		}
	}
}

// askServer asks one server for its version.
func (r *run) askServer(ctx context.Context, url string, s *measure.Server) {
	w := r.clientOptions()
	w.Timeout, w.DialTimeout = modelsTimeout, modelsTimeout
	c, err := wire.New(url, w)
	if err != nil {
		return
	}
	defer c.Close()
	for _, d := range versionDocuments {
		text, f := c.GetBelowRoot(ctx, d.path)
		if f != nil && f.Code == 0 {
			return
		}
		var doc versionDocument
		if f != nil || json.Unmarshal(text, &doc) != nil {
			continue
		}
		version := doc.Version
		switch d.path {
		case "/props":
			version = doc.BuildInfo
		case "/info":
			if doc.ModelID == nil {
				continue
			}
		}
		v, _ := version.(string)
		words := strings.FieldsFunc(c.Redact(v), func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) })
		if v = clip(strings.Join(words, " "), maxVersion); v == "" {
			continue
		}
		s.Version, s.Software = v, d.software
		if d.software == "" {
			s.Software = r.ownerOf(ctx, c)
		}
		if doc.Args != nil && doc.DisableRadix == nil {
			doc.DisableRadix = doc.Args.DisableRadix
		}
		if off, known := doc.DisableRadix.(bool); known && d.software == "sglang" {
			on := !off
			s.PrefixCaching, s.PrefixCachingFrom = &on, measure.FromServer
		}
		return
	}
}

// maxVersion bounds the text of a version, bytes.
const maxVersion = 100

// ownerOf returns vllm if the list of models says that it is of vLLM; else "".
func (r *run) ownerOf(ctx context.Context, c *wire.Client) string {
	text, f := c.Get(ctx, "/v1/models")
	var list struct {
		Data []struct {
			Owner any `json:"owned_by"`
		}
	}
	if f == nil && json.Unmarshal(text, &list) == nil && len(list.Data) > 0 && list.Data[0].Owner == "vllm" {
		return "vllm"
	}
	return ""
}

// labelOf returns what a label of the pages of a server says, True or False; known is false where none says it, or two differ. Where the
// run has one server, all pages are its.
func (s *scraping) labelOf(server string, all bool, metric, label string) (value, known bool) {
	if s == nil {
		return false, false
	}
	var said []string
	for page, values := range s.collector.Labels(metric, label) {
		if all || wire.SameServer(server, page) {
			said = append(said, values...)
		}
	}
	slices.Sort(said)
	said = slices.Compact(said)
	if len(said) != 1 {
		return false, false
	}
	return said[0] == "True", said[0] == "True" || said[0] == "False"
}
