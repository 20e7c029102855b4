package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// wireFlags say what a request body has beside the prompt, and how connections and errors are taken.
type wireFlags struct {
	extraBody, maxTokensField    string
	noIgnoreEOS, noStreamOptions bool
	keepAlive                    time.Duration
	overflow                     []string
}

func (f *wireFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.extraBody, "extra-body", "", "JSON object whose members go into every request body; fields that the recording needs win, which is said")
	flags.BoolVar(&f.noIgnoreEOS, "no-ignore-eos", false, "leave ignore_eos out of the body: the model ends its answers, which are then not as long as recorded")
	flags.StringVar(&f.maxTokensField, "max-tokens-field", "", "field of the length to generate: max_tokens, max_completion_tokens, or none, which leaves out ignore_eos as well (default: max_completion_tokens with --payload chat, max_tokens with ids)")
	flags.BoolVar(&f.noStreamOptions, "no-stream-options", false, "leave stream_options out of the body: most servers then tell no token counts")
	durationVar(flags, &f.keepAlive, "keep-alive", wire.DefaultKeepAlive, "how long an unused connection is used again; 0: every request has its own")
	flags.StringArrayVar(&f.overflow, "overflow-pattern", nil, "regular expression that tells a context overflow in the text of an error, in any letter case, beside the words of known servers (repeatable)")
}

// apply resolves the flags.
func (f *wireFlags) apply(o *replay.Options) error {
	o.Fields = payload.Fields{
		Extra: json.RawMessage(f.extraBody), Length: payload.LengthField(f.maxTokensField),
		OmitIgnoreEOS: f.noIgnoreEOS, OmitStreamOptions: f.noStreamOptions,
	}
	if err := o.Fields.Length.Validate(); err != nil {
		return usageError{fmt.Errorf("--max-tokens-field %s: %w", f.maxTokensField, err)}
	}
	if err := payload.ValidateExtra(o.Fields.Extra); err != nil {
		return usageError{fmt.Errorf("--extra-body: %w", err)}
	}
	for _, p := range f.overflow {
		if _, err := regexp.Compile(p); err != nil {
			return usageError{fmt.Errorf("--overflow-pattern %s: %w", p, err)}
		}
		o.OverflowPatterns = append(o.OverflowPatterns, regexp.MustCompile("(?i)"+p))
	}
	switch o.KeepAlive = f.keepAlive; {
	case f.keepAlive < 0:
		return usageError{fmt.Errorf("--keep-alive %v: want no negative value", f.keepAlive)}
	case f.keepAlive == 0:
		o.KeepAlive = -1
	}
	return nil
}

// passedProxy says that the environment names a proxy for a server, which a replay does not use; "" where it does not. The
// proxy itself is not named: it may have a password in it.
func passedProxy(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); proxy == nil && err == nil {
		return ""
	}
	return fmt.Sprintf("%s_PROXY is not used: a replay measures the server, so it connects to %s itself (NO_PROXY=%s says the same and ends this warning)",
		strings.ToUpper(u.Scheme), u.Host, u.Hostname())
}
