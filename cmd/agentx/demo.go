package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/mock"
)

func newDemo() *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Convert the traces inside agentx and replay them against the built-in mock server",
		Long: `Convert the traces inside agentx, serve the mock on a free loopback port, replay with 8 lanes for a few
seconds, and make a page of what was measured. Each command is printed before it runs. The mock counts
every prompt with the tokenizer: the prompts have the recorded lengths. Gaps are a twentieth of the
recorded ones, so that some seconds have a few hundred requests.`,
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd, duration)
		},
	}
	durationVar(cmd.Flags(), &duration, "duration", 5*time.Second, "how long to replay")
	return cmd
}

// How fast the mock of the demo answers, and how fast recorded time passes: in 5 s hundreds of requests, and trees that are shorter than a
// third of that, so that no remark is due.
const demoTTFT, demoITL, demoSpeed = 20 * time.Millisecond, 500 * time.Microsecond, 20

// runDemo converts the demo traces, serves a mock and replays against it, and prints each command before it runs.
func runDemo(cmd *cobra.Command, duration time.Duration) (err error) {
	w := cmd.OutOrStdout()
	show := func(args ...string) error {
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			if settings.OriginOf(f).Kind == settings.FromFlag {
				args = append(args, "--"+f.Name+"="+f.Value.String())
			}
		})
		fmt.Fprintf(w, "$ agentx %s\n", strings.Join(args, " "))
		return runCommand(cmd, args)
	}
	if err := show("convert", "demo"); err != nil {
		return err
	}

	f := mockFlags{Config: mock.Config{TTFT: demoTTFT, ITL: demoITL}, tokenizer: convert.DefaultTokenizer, verifyLengths: true}
	config, err := f.config(cmd)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	server, served := mock.New(config), make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	fmt.Fprintf(w, "\n$ agentx mock --listen %s --ttft %dms --itl %dus --verify-lengths &\n", l.Addr(), demoTTFT.Milliseconds(), demoITL.Microseconds())
	out := filepath.Join("agentx-results", time.Now().Format("20060102-150405"))
	if err := show("replay", "demo", "--url", "http://"+l.Addr().String(), "--model", "demo", "--concurrency", "8",
		"--speed", fmt.Sprint(demoSpeed), "--duration", duration.String(), "--out", out, "--report", "html"); err != nil {
		return err
	}
	s := server.Stats()
	fmt.Fprintf(w, `verified    the mock counted %s tokens in %s prompts, those before the run among them, with the tokenizer %s
page        %s

next: your traces   agentx convert TRACES: a file, a directory or hf://...; it prints CACHE
      your server   agentx replay CACHE --url URL --model NAME --concurrency 8 --duration 5m --report html
      look          open the page; agentx report %s OTHER --compare shows what differs
`, groupDigits(int(s.ReencodedTokens)), groupDigits(int(s.ReencodedPrompts)), f.tokenizer, filepath.Join(out, "report.html"), out)
	return nil
}
