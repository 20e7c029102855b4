package main

import "github.com/spf13/cobra"

func newCacheExplain() *cobra.Command { return &cobra.Command{Use: "explain INPUT..."} }
