"""What a change of NetworkManager's profiles would do: `plan` describes the operations, `state`
reads devices and profiles, `affected` finds those that a change reaches, `kernel_settings` the undo
of what a profile applies."""
