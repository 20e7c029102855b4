package main

import "github.com/spf13/cobra"

func newCacheWarm() *cobra.Command { return &cobra.Command{Use: "warm INPUT..."} }

func newCachePull() *cobra.Command { return &cobra.Command{Use: "pull CACHE"} }
