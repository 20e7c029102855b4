package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

func newDemo() *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Convert the traces inside agentx and replay them against the built-in mock server",
		Long: `Convert the traces inside agentx, serve the mock on a free loopback port, and replay with 8 lanes for
a few seconds. It prints the commands that do the same by hand.`,
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd, duration)
		},
	}
	durationVar(cmd.Flags(), &duration, "duration", 5*time.Second, "how long to replay")
	return cmd
}

func runDemo(cmd *cobra.Command, duration time.Duration) (err error) {
	w := cmd.OutOrStdout()
	fmt.Fprintln(w, "$ agentx convert demo")
	var c convertFlags
	c.register(&cobra.Command{}) // sets the defaults
	o, err := c.options(cmd, []string{"demo"})
	if err != nil {
		return err
	}
	begin := time.Now()
	r, err := runConvert(cmd, o)
	if err != nil {
		return err
	}
	printConverted(w, r, time.Since(begin), measure.ReadProcessUsage())

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- mock.New(mock.Config{TTFT: 20 * time.Millisecond, ITL: time.Millisecond}).Serve(ctx, l)
	}()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	fmt.Fprintf(w, "\n$ agentx mock --listen %s --ttft 20ms --itl 1ms &\n", l.Addr())
	fmt.Fprintf(w, "$ agentx replay demo --url http://%s --model demo --concurrency 8 --duration %s\n", l.Addr(), duration)
	var f replayFlags
	f.register(&cobra.Command{})
	f.urls, f.model, f.concurrency, f.duration = []string{"http://" + l.Addr().String()}, "demo", []int{8}, duration
	settings := defaults(f.flags, &f.problems)
	p := f.options(settings)
	if err := f.wrong(); err != nil {
		return err
	}
	if p.Cache, err = mmapcache.Open(o.Root, r.Key); err != nil {
		return err
	}
	defer p.Cache.Close()
	settings.chooseMarker(cmd, &p)
	if p.Provenance, err = runProvenance(&p, settings, nil); err != nil {
		return err
	}
	return runReplay(cmd, p, new(meetFlags), &exportFlags{}, false)
}
