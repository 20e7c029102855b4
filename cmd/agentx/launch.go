package main

import "context"

// launch is the key of the arguments that withLaunch keeps.
type launch struct{}

// withLaunch returns a context in which a replay records that it stands in for a command of another tool: its arguments, with the
// subcommand first, such as profile --model m, without secrets.
func withLaunch(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, launch{}, args)
}

// launchOf returns the arguments of the command that a replay stands in for, nil if there is none.
func launchOf(ctx context.Context) []string {
	args, _ := ctx.Value(launch{}).([]string)
	return args
}
