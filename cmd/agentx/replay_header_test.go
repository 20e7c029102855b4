package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/settings"
)

// Session headers come from flags, the environment and a file. The variables that switch one header on add to that of the flag.
//
// Covers T-40.
func TestWhereSessionHeadersComeFrom(t *testing.T) {
	const id, smg, dynamo = "AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "AGENTX_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "AGENTX_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID"
	for _, test := range []struct {
		name      string
		file      string
		variables map[string]string
		args      []string
		want      string
		from      string
	}{
		{"nothing", "", nil, nil, `null`, "default"},
		{"flags", "", nil, []string{"--session-header", "X-A", "--session-header", "X-B, X-C"}, `"X-A,X-B,X-C"`, "--session-header"},
		{"off", "session-header: X-A\n", nil, []string{"--session-header", "off"}, `null`, "--session-header"},
		{"set", "", nil, []string{"--set", "session-header=X-A,X-B"}, `"X-A,X-B"`, "--set"},
		{"file", "session-header: [X-Session-ID, X-B]\n", nil, nil, `"X-Session-ID,X-B"`, "run.yaml:1"},
		{"text of a file", "session-header: X-Session-ID, X-B\n", nil, nil, `"X-Session-ID,X-B"`, "run.yaml:1"},
		{"variable", "", map[string]string{id: "1"}, nil, `"X-Session-ID"`, id},
		{"variables", "session-header: X-File\n", map[string]string{smg: "true", dynamo: "t", id: "0", "AGENTX_SESSION_HEADER": "X-A,x-smg-routing-key"}, nil,
			`"X-A,x-smg-routing-key,X-Dynamo-Session-ID"`, "AGENTX_SESSION_HEADER, " + smg + ", " + dynamo},
		{"twin", "", map[string]string{"AGENTX_SESSION_HEADER": "X-A"}, nil, `"X-A"`, "AGENTX_SESSION_HEADER"},
		{"twin that is off", "session-header: X-File\n", map[string]string{"AGENTX_SESSION_HEADER": "off"}, nil, `null`, "AGENTX_SESSION_HEADER"},
		{"flag before variable", "", map[string]string{id: "1"}, []string{"--session-header", "X-A"}, `"X-A"`, "--session-header"},
	} {
		t.Run(test.name, func(t *testing.T) {
			configFile(t, test.file)
			for name, value := range test.variables {
				t.Setenv(name, value)
			}
			shown := shownConfig(t, append([]string{"--config", "run.yaml"}, test.args...)...)["session-header"]
			require.Equal(t, test.want, string(shown.Value))
			require.Equal(t, test.from, shown.From)
		})
	}
}

// What a header or a payload cannot be is told at once.
func TestWrongHeadersAndPayloads(t *testing.T) {
	t.Setenv("AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "perhaps")
	const headers = "want names of headers with commas between, none twice and none that requests have already, or off"
	require.Equal(t, []string{
		"agentx: --session-header X-A,x-a: " + headers,
		"agentx: --set correlation-header=X-Request-ID: want the name of a header that requests do not have already",
		"agentx: AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID=perhaps: want true or false",
		"agentx: --max-tokens-field none: --payload anthropic wants max_tokens",
	}, configErrors(t, "--session-header", "X-A,x-a", "--set", "correlation-header=X-Request-ID", "--payload", "anthropic",
		"--max-tokens-field", "none"))
	t.Setenv("AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "")
	for _, name := range []string{"", ",", "X-A,", "a b", "Content-Type", "X-Dynamo-Parent-Session-ID"} {
		require.Equal(t, []string{"agentx: " + settings.FlagText("session-header", name) + ": " + headers}, configErrors(t, "--session-header", name))
	}
	for _, payload := range []string{"ids", "text"} {
		require.Equal(t, []string{"agentx: --set content-parts=true: --payload " + payload + " sends no messages: want chat or anthropic"},
			configErrors(t, "--payload", payload, "--set", "content-parts=true"))
	}
	require.True(t, strings.Contains(agentx(t, "help", "replay"), "--session-header"))
}
