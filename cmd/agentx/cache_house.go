package main

import "github.com/spf13/cobra"

func newCacheGC() *cobra.Command { return &cobra.Command{Use: "gc"} }

func newCachePin() *cobra.Command { return &cobra.Command{Use: "pin CACHE..."} }

func newCacheUnpin() *cobra.Command { return &cobra.Command{Use: "unpin CACHE..."} }
