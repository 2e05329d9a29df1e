// SPDX-License-Identifier: Apache-2.0
// Browsers start no worker for a page that was opened from a folder. The search then runs in a hidden frame.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = this.scope.document.createElement("script");
      script.src = url;
      this.ready = new Promise((resolve) => (script.onload = resolve));
      this.scope.document.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
