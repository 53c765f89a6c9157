"""What people need to work on the connector: private servers, the demo, the image's build."""
