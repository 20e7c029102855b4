package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

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
