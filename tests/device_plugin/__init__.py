"""The device plugin for Kubernetes (fanin_device_plugin)."""
