package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/report/live"
	"github.com/agentx/agentx/report/otlp"
)

// collectorKind is the URL of a collector; "": none.
func collectorKind() settings.Kind {
	k := settings.Checked(func(text string) error { _, err := otlp.Endpoint(text); return err })
	k.Schema = map[string]any{"type": "string", "pattern": `^(off|(https?://)?[^ /?#]+(/[^ ]*)?)?$`}
	k.Read = func(text string) (any, bool) {
		url, err := otlp.Endpoint(text)
		return url, err == nil
	}
	return k
}

// newExporter returns the exporter that --otlp asks for, nil if it asks for none.
func newExporter(cmd *cobra.Command, o *replay.Options, state *live.State) *otlp.Exporter {
	endpoint, _ := cmd.Flags().GetString("otlp")
	if endpoint == "" {
		return nil
	}
	about := otlp.Options{
		Endpoint: endpoint, Version: version, Operation: "chat", Provider: o.Endpoint.Provider(), Model: o.Model, URLs: o.URLs, Figures: state.Families,
	}
	if !o.Endpoint.Roles() {
		about.Operation = "text_completion"
	}
	e, err := otlp.New(about)
	if err != nil { // the settings have been checked
		panic(err)
	}
	return e
}

// closeExporter ends an exporter, and says what it could not send.
func closeExporter(e *otlp.Exporter, p *progress) {
	d := e.Close()
	switch {
	case d.Dropped > 0:
		p.say(fmt.Sprintf("agentx: warning: --otlp: %d of %d requests were dropped: %v", d.Dropped, d.Sent+d.Dropped, d.Err))
	case d.Err != nil:
		p.say(fmt.Sprintf("agentx: warning: --otlp: all %d requests were sent, not all metrics: %v", d.Sent, d.Err))
	case d.Sent > 0:
		p.logLines([]string{fmt.Sprintf("--otlp: %d requests were sent as spans", d.Sent)})
	}
}
