package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
)

// wireFlags say what a request body has besides the prompt, and which errors are overflows.
type wireFlags struct {
	extraBody, maxTokensField    string
	noIgnoreEOS, noStreamOptions bool
	overflow                     []string

	flags *pflag.FlagSet
}

func (f *wireFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringVar(&f.extraBody, "extra-body", "", "JSON object whose members go into every request body; fields that the recording needs win, with a warning")
	flags.BoolVar(&f.noIgnoreEOS, "no-ignore-eos", false, "leave ignore_eos out of the body: the model then ends its answers, shorter or longer than recorded")
	flags.StringVar(&f.maxTokensField, "max-tokens-field", "", "body field that says how many tokens to generate: max_tokens, max_completion_tokens, or none, which leaves out ignore_eos as well (default: max_completion_tokens with --payload chat, else max_tokens)")
	flags.BoolVar(&f.noStreamOptions, "no-stream-options", false, "leave stream_options out of the body: most servers then report no token counts")
	flags.StringArrayVar(&f.overflow, "overflow-pattern", nil, "regular expression, in any letter case, for error texts that mean a context overflow, besides those of known servers (repeatable)")
}

// apply sets the options that the flags say. What is wrong is added to the problems.
func (f *wireFlags) apply(o *replay.Options, p *problems) {
	o.Fields = payload.Fields{
		Extra: json.RawMessage(f.extraBody), Length: payload.LengthField(f.maxTokensField),
		OmitIgnoreEOS: f.noIgnoreEOS, OmitStreamOptions: f.noStreamOptions,
	}
	if err := payload.ValidateExtra(o.Fields.Extra); err != nil {
		p.add("%s: %w", named(f.flags.Lookup("extra-body")), err)
	}
	for _, text := range f.overflow {
		pattern, err := regexp.Compile(text)
		if err == nil && pattern.MatchString("") {
			err = errors.New("every text matches: want a pattern that only texts of overflows match")
		}
		if err != nil {
			p.add("%s %s: %w", named(f.flags.Lookup("overflow-pattern")), cmp.Or(text, `""`), err)
			continue
		}
		o.OverflowPatterns = append(o.OverflowPatterns, regexp.MustCompile("(?i)"+text))
	}
}

// unusedProxy returns a warning where the environment names a proxy for a server, which a replay does not use, and else "".
// The warning does not name the proxy: it may have a password in it.
func unusedProxy(server string) string {
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

// warnOfProxies warns of proxies that a replay does not use.
func warnOfProxies(cmd *cobra.Command, servers []string) {
	for _, server := range servers {
		if about := unusedProxy(server); about != "" {
			printError(cmd.ErrOrStderr(), "agentx: warning: "+about)
		}
	}
}
