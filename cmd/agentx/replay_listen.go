package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/internal/guard"
)

// listenFlag is --listen, and the server that it asks for.
type listenFlag struct {
	address string       // "": there is none
	server  *live.Server // nil before open
}

// check completes the address.
func (l *listenFlag) check() (err error) {
	if l.address != "" {
		l.address, err = live.Address(l.address)
	}
	return err
}

// open begins to serve. The caller must call close.
func (l *listenFlag) open(cmd *cobra.Command) (err error) {
	if l.address == "" {
		return nil
	}
	if l.server, err = live.Listen(l.address, os.Getenv(guard.Variable)); err != nil {
		return usageError{fmt.Errorf("--listen: %w", err)}
	}
	cmd.SetContext(context.WithValue(cmd.Context(), liveServer{}, l.server))
	quiet, _ := cmd.Flags().GetBool("quiet")
	if !quiet || strings.HasSuffix(l.address, ":0") { // the user cannot know the port otherwise
		printError(cmd.ErrOrStderr(), "agentx: the run is served at "+l.server.URL()+" (also metrics, status)")
	}
	if l.server.Drawn != "" {
		printError(cmd.ErrOrStderr(), tokenLine("--listen", l.server.Drawn))
	}
	return nil
}

// tokenLine tells a token that was drawn, which nobody could know otherwise.
func tokenLine(flag, token string) string {
	return fmt.Sprintf("agentx: %s is reached from other machines, so it wants this token: %s (Authorization: Bearer TOKEN; in a browser the password; %s gives another)", flag, token, guard.Variable)
}

// browsersWait is how long a command waits at its end for pages that are open in browsers, which fetch the finished one.
const browsersWait = 3 * time.Second

func (l *listenFlag) close() {
	if l.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), browsersWait)
	defer cancel()
	_ = l.server.Close(ctx) // the command ends, whatever Close says
}

// liveServer is the key of the server of a command in its context.
type liveServer struct{}

// serverOf returns the server of a command, nil if it has none.
func serverOf(cmd *cobra.Command) *live.Server {
	server, _ := cmd.Context().Value(liveServer{}).(*live.Server)
	return server
}
