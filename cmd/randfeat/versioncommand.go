package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

func versionCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the revision of the source and the version of Go",
		Args:  cli.ExactArgs("none", 0),
		RunE:  cli.Do(func(*cobra.Command, []string) error { return printVersion(env) }),
	}
}

func printVersion(env *cli.Env) error {
	info, _ := debug.ReadBuildInfo()
	v := cli.VersionOf(info)
	if env.JSON {
		return env.Object(v)
	}
	_, err := fmt.Fprintln(env.Stdout, v)
	return err
}
